// Stands between a process and its disk: the n-th call of some kind on files of one folder fails, comes short, or is
// the last thing that the process does. Loaded before libc (LD_PRELOAD); told what to do in memory that all processes
// share, the file that CHAOS_CONTROL names.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { READ = 1, WRITE = 2, SYNC = 4, NAME = 8 };                      // which calls count
enum { NOTHING, FAIL, SHORT, KILL, INTERRUPT, SHORT_ALWAYS, FAIL_ALWAYS };  // what becomes of the n-th

struct Control {
  atomic_int calls, what, error, left, fired;
  char folder[512];
};

static struct Control* control;

__attribute__((constructor)) static void begin(void) {
  const char* path = getenv("CHAOS_CONTROL");
  const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void* memory = mmap(NULL, sizeof(struct Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory != MAP_FAILED) control = memory;
}

static int below(const char* path) { return strncmp(path, control->folder, strlen(control->folder)) == 0; }

static int ours(int fd) {
  char link[64], path[1024];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return below(path);
}

// Whether the call is to fail (-1), to come short (1), or to go on (0).
static int fate(int kind, int fd, const char* path) {
  const int saved = errno;
  int what = control ? atomic_load(&control->what) : NOTHING;
  if (what == NOTHING || !(atomic_load(&control->calls) & kind) || !control->folder[0]) return 0;
  if (!(path ? below(path) : ours(fd))) { errno = saved; return 0; }
  const int left = atomic_fetch_sub(&control->left, 1);
  errno = saved;
  if (left > 1 || (left < 1 && what != SHORT_ALWAYS && what != FAIL_ALWAYS)) return 0;
  atomic_fetch_add(&control->fired, 1);
  switch (what) {
    case KILL: raise(SIGKILL); return 0;
    case INTERRUPT: kill(getpid(), SIGINT); return 0;
    case SHORT: case SHORT_ALWAYS: return kind & (READ | WRITE);
    default: errno = atomic_load(&control->error); return -1;
  }
}

// What a call that comes short is asked for.
static size_t part(int f, size_t size) { return f && size > 1 ? 1 + size / 3 : size; }

#define NEXT(name) static __typeof__(name)* next; if (!next) next = (__typeof__(name)*)dlsym(RTLD_NEXT, #name)
#define PLAIN(name, kind, args, ...) \
  ssize_t name args { \
    NEXT(name); \
    const int f = fate(kind, fd, NULL); \
    return f < 0 ? -1 : next(fd, data, part(f, size), ##__VA_ARGS__); \
  }
#define VECTOR(name, kind, args, ...) \
  ssize_t name args { \
    NEXT(name); \
    const int f = fate(kind, fd, NULL); \
    struct iovec one = count > 0 ? parts[0] : (struct iovec){0}; \
    one.iov_len = part(f, one.iov_len); \
    return f < 0 ? -1 : next(fd, f ? &one : parts, f && count ? 1 : count, ##__VA_ARGS__); \
  }

PLAIN(read, READ, (int fd, void* data, size_t size))
PLAIN(pread, READ, (int fd, void* data, size_t size, off_t at), at)
PLAIN(pread64, READ, (int fd, void* data, size_t size, off64_t at), at)
PLAIN(write, WRITE, (int fd, const void* data, size_t size))
PLAIN(pwrite, WRITE, (int fd, const void* data, size_t size, off_t at), at)
PLAIN(pwrite64, WRITE, (int fd, const void* data, size_t size, off64_t at), at)
VECTOR(readv, READ, (int fd, const struct iovec* parts, int count))
VECTOR(preadv, READ, (int fd, const struct iovec* parts, int count, off_t at), at)
VECTOR(preadv64, READ, (int fd, const struct iovec* parts, int count, off64_t at), at)
VECTOR(preadv2, READ, (int fd, const struct iovec* parts, int count, off_t at, int flags), at, flags)
VECTOR(preadv64v2, READ, (int fd, const struct iovec* parts, int count, off64_t at, int flags), at, flags)
VECTOR(writev, WRITE, (int fd, const struct iovec* parts, int count))

int fsync(int fd) { NEXT(fsync); return fate(SYNC, fd, NULL) < 0 ? -1 : next(fd); }
int fdatasync(int fd) { NEXT(fdatasync); return fate(SYNC, fd, NULL) < 0 ? -1 : next(fd); }
int rename(const char* from, const char* to) { NEXT(rename); return fate(NAME, -1, from) < 0 ? -1 : next(from, to); }
int renameat(int a, const char* from, int b, const char* to) {
  NEXT(renameat);
  return fate(NAME, -1, from) < 0 ? -1 : next(a, from, b, to);
}
int unlink(const char* path) { NEXT(unlink); return fate(NAME, -1, path) < 0 ? -1 : next(path); }
int mkdir(const char* path, mode_t mode) { NEXT(mkdir); return fate(NAME, -1, path) < 0 ? -1 : next(path, mode); }
