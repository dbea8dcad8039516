// The pool, as plain allocations: the sanitizer sees where each of them ends, and how large it is.
#include <cstdlib>

#include "../../src/native/pool.h"

namespace headrace {

void* pool_take(size_t bytes) { return std::malloc(bytes); }
void* pool_resize(void* memory, size_t bytes) { return std::realloc(memory, bytes); }
void pool_give(void* memory) { std::free(memory); }

}  // namespace headrace
