// Philox4x32-10 (Salmon et al., 2011): a counter-based generator. The n-th number of a stream is a function of
// (key, n) alone, so any position can be reached, or walked backwards from, without the ones before it.
#pragma once

#include <cstdint>

namespace headrace {

struct Philox {
  uint64_t key;

  // The two 64-bit numbers of one counter value; `high` are the upper half of the counter.
  void block(uint64_t counter, uint64_t out[2], uint64_t high = 0) const {
    uint32_t c0 = uint32_t(counter), c1 = uint32_t(counter >> 32), c2 = uint32_t(high), c3 = uint32_t(high >> 32);
    uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t(0xD2511F53u) * c0, p1 = uint64_t(0xCD9E8D57u) * c2;
      c0 = uint32_t(p1 >> 32) ^ c1 ^ k0;
      c2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
      c1 = uint32_t(p1);
      c3 = uint32_t(p0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    out[0] = uint64_t(c1) << 32 | c0;
    out[1] = uint64_t(c3) << 32 | c2;
  }
};

// The numbers of one stream, remembering the last block: cheap to walk in either direction.
class Draws {
 public:
  explicit Draws(uint64_t key) : philox_{key} {}

  // Uniform in [0, bound), by the high half of a 128-bit product; the bias is below bound / 2^64.
  int64_t operator()(int64_t n, int64_t bound) {
    const uint64_t counter = uint64_t(n) >> 1;
    if (counter != counter_) {
      philox_.block(counter, numbers_);
      counter_ = counter;
    }
    const unsigned __int128 product = (unsigned __int128)(numbers_[n & 1]) * uint64_t(bound);
    return int64_t(uint64_t(product >> 64));
  }

 private:
  Philox philox_;
  uint64_t counter_ = ~uint64_t(0);
  uint64_t numbers_[2] = {0, 0};
};

}  // namespace headrace
