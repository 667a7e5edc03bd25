/* A file system without locks: flock and fcntl's locks end with ENOLCK. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

int flock(int file, int operation) {
    (void)file, (void)operation;
    errno = ENOLCK;
    return -1;
}

static int control(const char *name, int file, int command, void *argument) {
    int (*real)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, name);
    if (command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW) {
        errno = ENOLCK;
        return -1;
    }
    return real(file, command, argument);
}

#define CONTROL(name)                                                                                                  \
    int name(int file, int command, ...) {                                                                             \
        va_list rest;                                                                                                  \
        va_start(rest, command);                                                                                       \
        void *argument = va_arg(rest, void *);                                                                         \
        va_end(rest);                                                                                                  \
        return control(#name, file, command, argument);                                                                \
    }

CONTROL(fcntl)
CONTROL(fcntl64)
