#include <algorithm>
#include <cstring>

#include "image.h"
#include "team.h"

namespace headrace {
namespace {

constexpr int64_t kRun = 2048;  // values that stay in the nearest cache from one operation to the next

template <typename T>
[[gnu::always_inline]] inline void change(const T* from, int64_t count, Operation operation, float* to) {
  const float number = operation.number;
  switch (operation.what) {
    case kAdd:
      for (int64_t i = 0; i < count; ++i) to[i] = float(from[i]) + number;
      break;
    case kSubtract:
      for (int64_t i = 0; i < count; ++i) to[i] = float(from[i]) - number;
      break;
    case kMultiply:
      for (int64_t i = 0; i < count; ++i) to[i] = float(from[i]) * number;
      break;
    case kDivide:
      for (int64_t i = 0; i < count; ++i) to[i] = float(from[i]) / number;
      break;
  }
}

HEADRACE_WIDE void change_bytes(const uint8_t* from, int64_t count, Operation operation, float* to) {
  change(from, count, operation, to);
}

HEADRACE_WIDE void change_floats(float* values, int64_t count, Operation operation) {
  change(values, count, operation, values);
}

// A reciprocal in two parts. The first has so few bits that its products with bytes are exact, so that the sum of both
// products is rounded once, as a quotient is: which takes half the time to find.
struct Reciprocal {
  float high, low;

  explicit Reciprocal(float divisor) {
    const double whole = 1 / double(divisor);
    high = float(whole);
    uint32_t bits;
    std::memcpy(&bits, &high, sizeof bits);
    bits &= ~uint32_t(0xFF);
    std::memcpy(&high, &bits, sizeof bits);
    low = float(whole - double(high));
  }

  float times(uint8_t value) const { return float(value) * high + float(value) * low; }

  // Whether that is the quotient of every byte, to the last bit.
  bool divides_by(float divisor) const {
    for (int value = 0; value < 256; ++value) {
      const float product = times(uint8_t(value)), quotient = float(value) / divisor;
      if (std::memcmp(&product, &quotient, sizeof product)) return false;
    }
    return true;
  }
};

HEADRACE_WIDE void divide_bytes(const uint8_t* from, int64_t count, Reciprocal by, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = by.times(from[i]);
}

}  // namespace

void scale_bytes(const uint8_t* values, int64_t count, const Operation* operations, int64_t many, float* out) {
  const Reciprocal reciprocal(operations[0].number);
  const bool divides = operations[0].what == kDivide && reciprocal.divides_by(operations[0].number);
  in_pieces(count, grain_of(count, count * int64_t(sizeof(float))), [=](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kRun) {
      const int64_t run = std::min(kRun, end - at);
      if (divides) {
        divide_bytes(values + at, run, reciprocal, out + at);
      } else {
        change_bytes(values + at, run, operations[0], out + at);
      }
      for (int64_t i = 1; i < many; ++i) change_floats(out + at, run, operations[i]);
    }
  });
}

}  // namespace headrace
