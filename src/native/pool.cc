#include "pool.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace headrace {
namespace {

constexpr size_t kLarge = 64 << 10;   // smaller blocks are cached by the system's allocator
constexpr size_t kPrefix = 64;        // before large memory: keeps it aligned
constexpr size_t kSmallPrefix = 16;   // before small memory
constexpr size_t kApart = 4 << 20;    // larger blocks have their own mapping
constexpr size_t kChunk = 32 << 20;   // smaller ones are carved out of mappings of this size
constexpr size_t kColour = 192;       // memory begins at different offsets in its page: processors treat copies between
constexpr size_t kColours = 16;       // equal ones as overlapping, and stall
constexpr int kSteps = 8;             // sizes from one power of two to the next
constexpr int kSlack = 4;             // a reused block may be this many steps larger
constexpr int kFirst = 16;            // log2 of kLarge
constexpr int kClasses = (48 - kFirst) * kSteps;
constexpr uint64_t kSmall = uint64_t(-1);

// Each block stores its class, its size and the start of its mapping in the words before it.
uint64_t& class_of(void* memory) { return static_cast<uint64_t*>(memory)[-1]; }
uint64_t& size_of(void* memory) { return static_cast<uint64_t*>(memory)[-2]; }
char*& start_of(void* memory) { return static_cast<char**>(memory)[-3]; }

int class_for(size_t bytes) {
  const int power = 63 - __builtin_clzll(bytes);  // 2^power <= bytes
  const size_t step = size_t(1) << (power - 3);
  const int above = int((bytes - (size_t(1) << power) + step - 1) / step);
  return (power - kFirst) * kSteps + above;
}

size_t class_bytes(int number) {
  const int power = kFirst + number / kSteps;
  return (size_t(1) << power) + size_t(number % kSteps) * (size_t(1) << (power - 3));
}

size_t mapped_bytes(int number) { return (class_bytes(number) + kPrefix + kColours * kColour + 4095) & ~size_t(4095); }

// Memory of one class: warm if its pages are resident, cold if they were returned to the system.
struct Shelf {
  std::vector<void*> warm, cold;
  uint64_t used = 0;  // when a block was last taken or returned
};

// Memory with its own mapping.
struct Mapping {
  size_t bytes;
  bool pinned = false;
  bool unwanted = false;  // would have been returned, but is pinned
};

class Pool {
 public:
  void* take(int number, bool* zeroed) {
    const size_t bytes = mapped_bytes(number);
    std::lock_guard<std::mutex> held(lock_);
    ++stats_.taken;
    shelves_[number].used = ++clock_;
    number = warm_from(number);
    Shelf& shelf = shelves_[number];
    shelf.used = clock_;
    void* memory = nullptr;
    *zeroed = shelf.warm.empty() && shelf.cold.empty();
    if (!shelf.warm.empty()) {
      memory = shelf.warm.back();
      shelf.warm.pop_back();
      ++stats_.reused;
      stats_.idle -= int64_t(class_bytes(number));
    } else if (!shelf.cold.empty()) {
      memory = shelf.cold.back();
      shelf.cold.pop_back();
    } else {
      char* start = bytes < kApart ? carve(bytes) : map(bytes);
      if (!start) return nullptr;
      if (bytes >= kApart) apart_[reinterpret_cast<uintptr_t>(start)] = {bytes};
      memory = start + kPrefix + (colour_++ % kColours) * kColour;
      start_of(memory) = start;
    }
    stats_.in_use += int64_t(class_bytes(number));
    class_of(memory) = uint64_t(number);
    return memory;
  }

  // Returns how many bytes are idle afterwards.
  int64_t give(void* memory, int number) {
    std::lock_guard<std::mutex> held(lock_);
    const int64_t bytes = int64_t(class_bytes(number));
    stats_.in_use -= bytes;
    shelves_[number].warm.push_back(memory);
    shelves_[number].used = ++clock_;
    stats_.idle += bytes;
    while (stats_.idle > keep_) release_oldest();
    return stats_.idle;
  }

  void keep(int64_t bytes) {
    std::lock_guard<std::mutex> held(lock_);
    keep_ = bytes;
    while (stats_.idle > keep_) release_oldest();
  }

  void trim() {
    std::lock_guard<std::mutex> held(lock_);
    trim_held();
  }

  PoolStats stats() {
    std::lock_guard<std::mutex> held(lock_);
    return stats_;
  }

  PoolMapping mapping(uintptr_t address) {
    std::lock_guard<std::mutex> held(lock_);
    auto next = apart_.upper_bound(address);
    if (next == apart_.begin()) return {0, 0};
    const auto& [start, found] = *--next;
    return address < start + found.bytes ? PoolMapping{start, found.bytes} : PoolMapping{0, 0};
  }

  bool pin(uintptr_t start) {
    std::lock_guard<std::mutex> held(lock_);
    auto found = apart_.find(start);
    if (found == apart_.end() || found->second.pinned) return false;
    found->second.pinned = true;
    stats_.pinned += int64_t(found->second.bytes);
    return true;
  }

  void unpin(uintptr_t start) {
    std::lock_guard<std::mutex> held(lock_);
    auto found = apart_.find(start);
    if (found == apart_.end() || !found->second.pinned) return;
    found->second.pinned = false;
    stats_.pinned -= int64_t(found->second.bytes);
    if (found->second.unwanted) unmap(found);
  }

  std::vector<uintptr_t> unwanted() {
    std::lock_guard<std::mutex> held(lock_);
    std::vector<uintptr_t> found;
    if (stats_.pinned) {
      for (const auto& [start, mapping] : apart_) {
        if (mapping.unwanted) found.push_back(start);
      }
    }
    return found;
  }

  std::mutex& lock() { return lock_; }

 private:
  char* map(size_t bytes) {
    void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
      trim_held();
      start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (start == MAP_FAILED) return nullptr;
    return static_cast<char*>(start);
  }

  // The class whose warm memory to use: this one, or a slightly larger one, if it has none.
  int warm_from(int number) const {
    const int last = std::min(number + kSlack, kClasses - 1);
    for (int i = number; i <= last; ++i) {
      if (!shelves_[i].warm.empty()) return i;
    }
    return number;
  }

  // Carve a block out of a larger mapping: the number of mappings of a process is limited. The rest of the last one is
  // lost.
  char* carve(size_t bytes) {
    if (size_t(end_ - next_) < bytes) {
      char* start = map(kChunk);
      if (!start) return nullptr;
      next_ = start;
      end_ = start + kChunk;
    }
    return std::exchange(next_, next_ + bytes);
  }

  // Return the pages; the addresses of carved memory are kept for later.
  void release(void* memory, int number) {
    char* start = start_of(memory);
    const size_t bytes = mapped_bytes(number);
    if (bytes >= kApart) {
      auto found = apart_.find(reinterpret_cast<uintptr_t>(start));
      found->second.unwanted = true;
      if (!found->second.pinned) unmap(found);
    } else {
      char* pages = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory) + 4095) & ~uintptr_t(4095));
      madvise(pages, size_t(start + bytes - pages), MADV_DONTNEED);  // the words before the memory stay
      shelves_[number].cold.push_back(memory);
    }
  }

  void unmap(std::map<uintptr_t, Mapping>::iterator found) {
    munmap(reinterpret_cast<void*>(found->first), found->second.bytes);
    apart_.erase(found);
  }

  // Return one block, of the least recently used size.
  void release_oldest() {
    int oldest = -1;
    for (int i = 0; i < kClasses; ++i) {
      if (!shelves_[i].warm.empty() && (oldest < 0 || shelves_[i].used < shelves_[oldest].used)) oldest = i;
    }
    if (oldest < 0) return;
    void* memory = shelves_[oldest].warm.back();
    shelves_[oldest].warm.pop_back();
    stats_.idle -= int64_t(class_bytes(oldest));
    release(memory, oldest);
  }

  void trim_held() {
    for (int i = 0; i < kClasses; ++i) {
      std::vector<void*> warm;
      warm.swap(shelves_[i].warm);
      for (void* memory : warm) release(memory, i);
    }
    stats_.idle = 0;
  }

  std::mutex lock_;
  Shelf shelves_[kClasses];
  std::map<uintptr_t, Mapping> apart_;
  char* next_ = nullptr;
  char* end_ = nullptr;
  int64_t keep_ = 1 << 30;
  uint64_t clock_ = 0;
  size_t colour_ = 0;
  PoolStats stats_{0, 0, 0, 0, 0};
};

Pool& the_pool() {
  static Pool* made = [] {
    Pool* fresh = new Pool();  // never destroyed: arrays may outlive everything else
    pthread_atfork([] { the_pool().lock().lock(); }, [] { the_pool().lock().unlock(); },
                   [] { the_pool().lock().unlock(); });
    return fresh;
  }();
  return *made;
}

void* small(size_t bytes, bool zero) {
  void* start = zero ? std::calloc(1, bytes + kSmallPrefix) : std::malloc(bytes + kSmallPrefix);
  if (!start) return nullptr;
  void* memory = static_cast<char*>(start) + kSmallPrefix;
  class_of(memory) = kSmall;
  size_of(memory) = bytes;
  return memory;
}

void* take(size_t bytes, bool zero) {
  if (bytes < kLarge) return small(bytes, zero);
  if (bytes >= size_t(1) << 47) return nullptr;
  bool zeroed = false;
  void* memory = the_pool().take(class_for(bytes), &zeroed);
  if (!memory) return nullptr;
  size_of(memory) = bytes;
  if (zero && !zeroed) std::memset(memory, 0, bytes);
  return memory;
}

}  // namespace

void* pool_take(size_t bytes) { return take(bytes, false); }
void* pool_take_zeroed(size_t bytes) { return take(bytes, true); }

void pool_give(void* memory) {
  if (!memory) return;
  const uint64_t number = class_of(memory);
  if (number == kSmall) {
    std::free(static_cast<char*>(memory) - kSmallPrefix);
  } else {
    memory_comes_back(the_pool().give(memory, int(number)));
  }
}

void* pool_resize(void* memory, size_t bytes) {
  if (!memory) return pool_take(bytes);
  const uint64_t number = class_of(memory);
  if (number == kSmall && bytes < kLarge) {
    void* moved = std::realloc(static_cast<char*>(memory) - kSmallPrefix, bytes + kSmallPrefix);
    if (!moved) return nullptr;
    memory = static_cast<char*>(moved) + kSmallPrefix;
    size_of(memory) = bytes;
    return memory;
  }
  const size_t room = number == kSmall ? 0 : class_bytes(int(number));
  if (bytes >= kLarge && bytes <= room && bytes > room / 2) {
    size_of(memory) = bytes;
    return memory;
  }
  void* made = pool_take(bytes);
  if (!made) return nullptr;
  std::memcpy(made, memory, std::min<size_t>(bytes, size_of(memory)));
  pool_give(memory);
  return made;
}

void pool_keep(int64_t bytes) { the_pool().keep(std::max<int64_t>(0, bytes)); }
void pool_trim() { the_pool().trim(); }
PoolMapping pool_mapping(uintptr_t address) { return the_pool().mapping(address); }
bool pool_pin(uintptr_t start) { return the_pool().pin(start); }
void pool_unpin(uintptr_t start) { the_pool().unpin(start); }
std::vector<uintptr_t> pool_unwanted() { return the_pool().unwanted(); }
PoolStats pool_stats() { return the_pool().stats(); }

}  // namespace headrace
