#include <numeric>
#include <utility>
#include <vector>

#include "cpu.h"
#include "kernels.h"
#include "philox.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HEADRACE_WIDE __attribute__((target("avx2")))
#endif

namespace headrace {
namespace {

// Below this a table is cheap and exactly uniform; above it a Feistel network needs no memory.
constexpr int64_t kTable = 1 << 16;
constexpr int kRounds = 8;
constexpr int kLanes = 64;  // indices that are permuted side by side

struct Feistel {
  uint64_t size;
  int left_bits, right_bits;
  uint32_t keys[kRounds];
};

// The domain is the next power of two, whose bits are split into two parts of at most 31.
Feistel feistel(uint64_t key, uint64_t size) {
  Feistel f{size, 0, 0, {}};
  int bits = 2;
  while (bits < 62 && (uint64_t(1) << bits) < size) ++bits;
  f.left_bits = bits / 2;
  f.right_bits = bits - f.left_bits;
  const Philox philox{key};
  for (int i = 0; i < kRounds; i += 4) {
    uint64_t numbers[2];
    philox.block(uint64_t(i), numbers);
    for (int j = 0; j < 4; ++j) f.keys[i + j] = uint32_t(numbers[j / 2] >> (32 * (j % 2)));
  }
  return f;
}

// Every input bit affects every output bit.
inline uint32_t stir(uint32_t x, uint32_t key) {
  x ^= key;
  x ^= x >> 16;
  x *= 0x85EBCA6Bu;
  x ^= x >> 13;
  x += key;
  x *= 0xC2B2AE35u;
  return x ^ (x >> 16);
}

// Each round changes one part by a function of the other. Written so that a compiler vectorizes it.
inline __attribute__((always_inline)) void rounds(const Feistel& f, uint64_t* values) {
  const uint32_t left_mask = (uint32_t(1) << f.left_bits) - 1, right_mask = (uint32_t(1) << f.right_bits) - 1;
  uint32_t left[kLanes], right[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    left[i] = uint32_t(values[i] >> f.right_bits);
    right[i] = uint32_t(values[i]) & right_mask;
  }
  for (int round = 0; round < kRounds; round += 2) {
    const uint32_t one = f.keys[round], other = f.keys[round + 1];
    for (int i = 0; i < kLanes; ++i) left[i] ^= stir(right[i], one) & left_mask;
    for (int i = 0; i < kLanes; ++i) right[i] ^= stir(left[i], other) & right_mask;
  }
  for (int i = 0; i < kLanes; ++i) values[i] = uint64_t(left[i]) << f.right_bits | right[i];
}

#ifdef HEADRACE_WIDE
HEADRACE_WIDE void rounds_wide(const Feistel& f, uint64_t* values) { rounds(f, values); }
#endif
void rounds_plain(const Feistel& f, uint64_t* values) { rounds(f, values); }

// Values outside [0, size) go through the rounds again until they fall inside, together with the next indices.
void walk(const Feistel& f, const int64_t* indices, int64_t count, int64_t* out) {
#ifdef HEADRACE_WIDE
  static const bool wide = cpu_features().avx2;
  const auto run = wide ? rounds_wide : rounds_plain;
#else
  const auto run = rounds_plain;
#endif
  uint64_t values[kLanes] = {};
  int64_t places[kLanes];
  int live = 0;
  for (int64_t next = 0; next < count || live;) {
    for (; live < kLanes && next < count; ++live, ++next) {
      values[live] = uint64_t(indices[next]);
      places[live] = next;
    }
    run(f, values);
    int again = 0;
    for (int i = 0; i < live; ++i) {
      const uint64_t value = values[i];
      const int64_t place = places[i];
      out[place] = int64_t(value);  // final, unless it goes through again
      values[again] = value;
      places[again] = place;
      again += value >= f.size;
    }
    live = again;
  }
}

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
  walk(feistel(key, uint64_t(size)), indices, count, out);
}

}  // namespace headrace
