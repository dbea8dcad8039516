#include "kernels.h"
#include "pool.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace headrace {

bool keep_heap() {
#if defined(__GLIBC__)
  // By default what is larger than 128 kB is mapped anew for each array, and every page of it costs a fault.
  return mallopt(M_MMAP_THRESHOLD, 32 << 20) == 1 && mallopt(M_TRIM_THRESHOLD, 64 << 20) == 1;
#else
  return false;
#endif
}

void release_memory() {
  pool_trim();
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace headrace
