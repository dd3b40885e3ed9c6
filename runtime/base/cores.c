// cores.c - how many cores this process may compute on: those of its affinity, and no more than its
// control group has time for. A container with a CPU limit sees all cores of its machine; a team of
// as many threads would be stopped together for most of every period.
#define _GNU_SOURCE
#include "process.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double lesser(double a, double b) {
    return a < b ? a : b;
}

static bool read_small(const char *path, char *text, size_t n) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, n - 1);
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = 0;
    return got > 0;
}

static double number_in(const char *dir, const char *name) {
    char path[4200], text[64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return read_small(path, text, sizeof text) ? strtod(text, NULL) : 0;
}

// Cores of time that a group of version 2 or 1 has, whichever it is; INFINITY: no limit.
static double group_quota(const char *dir) {
    char path[4200], text[64], *end;
    snprintf(path, sizeof path, "%s/cpu.max", dir);
    double quota, period;
    if (read_small(path, text, sizeof text)) { // "max 100000", "250000 100000"
        quota = strtod(text, &end);
        period = strtod(end, NULL);
    } else {
        quota = number_in(dir, "cpu.cfs_quota_us"); // -1: none
        period = number_in(dir, "cpu.cfs_period_us");
    }
    return quota > 0 && period > 0 ? quota / period : INFINITY;
}

// The least of a group and those above it. Inside a container the path may be the machine's, of
// which nothing but the root is there.
static double least_quota(const char *mount, Str group) {
    double least = group_quota(mount);
    char dir[4096];
    while (group.len > 1) {
        int n = snprintf(dir, sizeof dir, "%s%.*s", mount, SARG(group));
        if (n > 0 && (size_t)n < sizeof dir)
            least = lesser(least, group_quota(dir));
        while (group.len && group.ptr[group.len - 1] != '/')
            group.len--;
        group.len -= group.len > 0;
    }
    return least;
}

// Of "cpu,cpuacct".
static bool names_cpu(Str controllers) {
    for (size_t at = 0, end; at <= controllers.len; at = end + 1) {
        Str rest = str_sub(controllers, at, controllers.len);
        end = at + str_find(rest, ',');
        if (str_eq(str_sub(controllers, at, end), STR("cpu")))
            return true;
    }
    return false;
}

// Lines are "0::/group" of version 2, "4:cpu,cpuacct:/group" of version 1, whose mount is a folder
// by that name.
double cores_quota_of(Str membership, const char *mount) {
    double least = INFINITY;
    for (size_t at = 0; at < membership.len;) {
        Str line = str_sub(membership, at, membership.len);
        line.len = str_find(line, '\n');
        at += line.len + 1;
        size_t first = str_find(line, ':');
        Str rest = str_sub(line, first + 1, line.len);
        size_t second = str_find(rest, ':');
        Str controllers = str_sub(rest, 0, second), group = str_sub(rest, second + 1, rest.len);
        char dir[4096];
        snprintf(dir, sizeof dir, "%s%s%.*s", mount, controllers.len ? "/" : "", SARG(controllers));
        if (!controllers.len || names_cpu(controllers))
            least = lesser(least, least_quota(dir, group));
    }
    return least;
}

double cores_quota(void) {
    char membership[4096];
    return read_small("/proc/self/cgroup", membership, sizeof membership)
               ? cores_quota_of(str_c(membership), "/sys/fs/cgroup")
               : INFINITY;
}

// The system refuses a set that is smaller than its own.
static int affinity(void) {
    for (int most = CPU_SETSIZE; most <= 1 << 20; most *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)most);
        size_t bytes = CPU_ALLOC_SIZE((size_t)most);
        int n = set && sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (n)
            return n;
    }
    return 1;
}

int cores_usable(void) {
    double n = lesser(affinity(), cores_quota());
    return n > 1 ? (int)n : 1;
}
