// A pool of memory for large arrays: new memory of the system costs a fault per page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headrace {

struct PoolStats {
  int64_t in_use;  // bytes in use
  int64_t idle;    // bytes that are free for reuse
  int64_t taken;   // how often memory was requested …
  int64_t reused;  // … and how often a free block was reused
  int64_t pinned;  // bytes that must not be returned to the system
};

// Small requests go to the system's allocator. Large blocks are aligned to 64 bytes.
void* pool_take(size_t bytes);
void* pool_take_zeroed(size_t bytes);
void* pool_resize(void* memory, size_t bytes);
void pool_give(void* memory);

// Large memory with its own mapping: its start and size.
struct PoolMapping {
  uintptr_t start;
  size_t bytes;
};

// The mapping that contains an address; empty if it is not the pool's.
PoolMapping pool_mapping(uintptr_t address);
// A pinned mapping is not returned to the system until it is unpinned: a device may know its pages. False if it does
// not exist, or is pinned already.
bool pool_pin(uintptr_t start);
void pool_unpin(uintptr_t start);
// The pinned mappings that are no longer used.
std::vector<uintptr_t> pool_unwanted();

// At most this many bytes are kept for reuse; the rest is returned to the system at once.
void pool_keep(int64_t bytes);
// Return all free memory to the system.
void pool_trim();

// Idle memory is returned to the system a fifth of a second after the last pass has ended. `worth` says that this pass
// moved enough data to trim the heap too.
void pass_begins();
void pass_ends(bool worth);
void memory_comes_back(int64_t idle_bytes);
PoolStats pool_stats();

}  // namespace headrace
