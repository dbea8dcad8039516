#include <algorithm>

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

}  // namespace

void scale_bytes(const uint8_t* values, int64_t count, const Operation* operations, int64_t many, float* out) {
  in_pieces(count, grain_of(count, count * int64_t(sizeof(float))), [=](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kRun) {
      const int64_t run = std::min(kRun, end - at);
      change_bytes(values + at, run, operations[0], out + at);
      for (int64_t i = 1; i < many; ++i) change_floats(out + at, run, operations[i]);
    }
  });
}

}  // namespace headrace
