// archive_random.c - part of the portable archive's libarchive (portable.cmake): the one function
// that it calls of a C library newer than Ubuntu 22.04's (2.35).
#define _DEFAULT_SOURCE
#include <stddef.h>
#include <sys/random.h>
#include <sys/types.h>

void arc4random_buf(void *at, size_t n);
void arc4random_buf(void *at, size_t n) {
    for (size_t have = 0; have < n;) {
        ssize_t got = getrandom((char *)at + have, n - have, 0);
        have += got > 0 ? (size_t)got : 0; // else: interrupted
    }
}
