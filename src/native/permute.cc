#include <numeric>
#include <utility>
#include <vector>

#include "kernels.h"
#include "philox.h"

namespace headrace {
namespace {

// Below this a table is cheap and exactly uniform; above it a Feistel network needs no memory.
constexpr int64_t kTable = 1 << 16;
constexpr int kRounds = 8;

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

class Feistel {
 public:
  Feistel(uint64_t key, int64_t size) : size_(uint64_t(size)) {
    while (half_ < 32 && (uint64_t(1) << (2 * half_)) < size_) ++half_;
    Philox philox{key};
    for (int i = 0; i < kRounds; i += 2) philox.block(uint64_t(i), round_keys_ + i);
  }

  // The domain is the next power of four; values outside [0, size) are sent round again until they fall inside.
  uint64_t operator()(uint64_t x) const {
    do {
      x = once(x);
    } while (x >= size_);
    return x;
  }

 private:
  uint64_t once(uint64_t x) const {
    const uint64_t mask = (uint64_t(1) << half_) - 1;
    uint64_t left = x >> half_, right = x & mask;
    for (int i = 0; i < kRounds; ++i) {
      const uint64_t next = left ^ (mix(right + round_keys_[i]) & mask);
      left = right;
      right = next;
    }
    return left << half_ | right;
  }

  uint64_t size_;
  int half_ = 1;
  uint64_t round_keys_[kRounds];
};

}  // namespace

void permute(uint64_t key, int64_t size, const int64_t* indices, int64_t count, int64_t* out) {
  if (size <= kTable) {
    std::vector<int64_t> table(static_cast<size_t>(size));
    std::iota(table.begin(), table.end(), int64_t(0));
    Draws draw(key);
    for (int64_t i = size - 1; i > 0; --i) std::swap(table[size_t(i)], table[size_t(draw(i, i + 1))]);
    for (int64_t i = 0; i < count; ++i) out[i] = table[size_t(indices[i])];
    return;
  }
  const Feistel feistel(key, size);
  for (int64_t i = 0; i < count; ++i) out[i] = int64_t(feistel(uint64_t(indices[i])));
}

}  // namespace headrace
