#include "kernels.h"

#ifdef __linux__
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#endif

namespace headrace {

void die_with_parent() {
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}

int64_t run_delay() {
#ifdef __linux__
  const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);  // time on a CPU, time waiting for one
  if (file < 0) return 0;
  char text[96];
  const ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  if (size <= 0) return 0;
  text[size] = 0;
  char* rest = text;
  std::strtoll(rest, &rest, 10);
  return std::strtoll(rest, nullptr, 10);
#else
  return 0;
#endif
}

}  // namespace headrace
