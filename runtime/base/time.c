// time.c - one clock for all measurements: monotonic, in seconds.
#define _GNU_SOURCE
#include "base.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t clock) {
    struct timespec t;
    return clock_gettime(clock, &t) == 0 ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec : 0;
}

double time_now(void) {
    return seconds(CLOCK_MONOTONIC);
}

// Field 22 of /proc/self/stat: the start in ticks since boot; -1 when it cannot be read. The second
// field is the program's name in parentheses and may itself hold blanks and parentheses, so
// counting begins after the last ')'.
static double start_since_boot(void) {
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return -1;
    text[n] = 0;
    const char *p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    double ticks = p ? strtod(p, NULL) : 0;
    return ticks > 0 ? ticks / (double)sysconf(_SC_CLK_TCK) : -1;
}

double time_process_start(void) {
    double started = start_since_boot(), now = time_now();
    if (started < 0)
        return now; // no /proc: the first question is the best guess
    double age = seconds(CLOCK_BOOTTIME) - started;
    return age > 0 ? now - age : now;
}
