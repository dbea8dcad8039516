// Memory for large arrays that is used again: what the system gives anew it gives by the page, a fault each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headrace {

struct PoolStats {
  int64_t in_use;  // bytes that somebody holds
  int64_t idle;    // bytes that wait to be used again
  int64_t taken;   // how often memory was asked for …
  int64_t reused;  // … and how often there was some
  int64_t pinned;  // bytes that must not go back to the system
};

// Small requests go to the system's allocator. All memory is aligned to 64 bytes where it is large.
void* pool_take(size_t bytes);
void* pool_take_zeroed(size_t bytes);
void* pool_resize(void* memory, size_t bytes);
void pool_give(void* memory);

// Memory that is mapped by itself, since it is large: where it begins, and how many bytes.
struct PoolMapping {
  uintptr_t start;
  size_t bytes;
};

// The mapping that an address lies in; of no bytes where that is none of the pool's.
PoolMapping pool_mapping(uintptr_t address);
// A mapping that is pinned does not go back to the system, whatever is given back, until it is unpinned: a device may
// know its pages. False if it is not there, or pinned already.
bool pool_pin(uintptr_t start);
void pool_unpin(uintptr_t start);
// The pinned mappings that nobody has a use for any more.
std::vector<uintptr_t> pool_unwanted();

// At most so many bytes wait to be used again; what is beyond goes back to the system at once.
void pool_keep(int64_t bytes);
// Gives all that waits back to the system.
void pool_trim();

// Idle memory goes back to the system a fifth of a second after the last pass has ended. `worth` says that this one
// moved enough data for the heap to be looked at too.
void pass_begins();
void pass_ends(bool worth);
void memory_comes_back(int64_t idle_bytes);
PoolStats pool_stats();

}  // namespace headrace
