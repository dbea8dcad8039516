#include "kernels.h"
#include "pool.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace headrace {

void release_memory() {
  pool_trim();
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace headrace
