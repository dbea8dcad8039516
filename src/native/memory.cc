#include "kernels.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace headrace {

void release_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace headrace
