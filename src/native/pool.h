// Memory for large arrays that is used again: what the system gives anew it gives by the page, a fault each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

struct PoolStats {
  int64_t in_use;  // bytes that somebody holds
  int64_t idle;    // bytes that wait to be used again
  int64_t taken;   // how often memory was asked for …
  int64_t reused;  // … and how often there was some
};

// Small requests go to the system's allocator. All memory is aligned to 64 bytes where it is large.
void* pool_take(size_t bytes);
void* pool_take_zeroed(size_t bytes);
void* pool_resize(void* memory, size_t bytes);
void pool_give(void* memory);

// At most so many bytes wait to be used again; what is beyond goes back to the system at once.
void pool_keep(int64_t bytes);
// Gives all that waits back to the system.
void pool_trim();
PoolStats pool_stats();

}  // namespace headrace
