/* A file system without locks, and a quota that large files exceed: preloaded, FAULT names one of them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is(const char *name) {
  const char *fault = getenv("FAULT");
  return fault && !strcmp(fault, name);
}

int flock(int descriptor, int operation) {
  int (*real)(int, int) = dlsym(RTLD_NEXT, "flock");
  if (is("locks")) {
    errno = ENOLCK;
    return -1;
  }
  return real(descriptor, operation);
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
  ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
  char name[64], path[4096] = "";
  snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
  if (is("quota") && count > 1 << 20 && readlink(name, path, sizeof path - 1) > 0 && *path == '/') {
    errno = EDQUOT;
    return -1;
  }
  return real(descriptor, bytes, count);
}
