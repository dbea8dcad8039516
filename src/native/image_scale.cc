#include <algorithm>
#include <cstring>
#include <utility>

#include "cpu.h"
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

HEADRACE_INLINE void change_bytes_inline(const uint8_t* from, int64_t count, Operation operation, float* to) {
  change(from, count, operation, to);
}
HEADRACE_DISPATCH(void, change_bytes, (const uint8_t* from, int64_t count, Operation operation, float* to), (from, count, operation, to))

HEADRACE_INLINE void change_floats_inline(float* values, int64_t count, Operation operation) {
  change(values, count, operation, values);
}
HEADRACE_DISPATCH(void, change_floats, (float* values, int64_t count, Operation operation), (values, count, operation))

// Multiply by two factors whose sum is the reciprocal. The first has so few bits that its products with bytes are
// exact, so that the sum of both products is rounded once, like a quotient, in half the time.
float times(uint8_t value, float high, float low) { return float(value) * high + float(value) * low; }

HEADRACE_INLINE void multiply_bytes_inline(const uint8_t* from, int64_t count, float high, float low, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = times(from[i], high, low);
}
HEADRACE_DISPATCH(void, multiply_bytes, (const uint8_t* from, int64_t count, float high, float low, float* to), (from, count, high, low, to))

// Whether that equals the quotient of every byte, to the last bit.
bool divide_by(float divisor, float high, float low) {
  for (int value = 0; value < 256; ++value) {
    const float product = times(uint8_t(value), high, low), quotient = float(value) / divisor;
    if (std::memcmp(&product, &quotient, sizeof product)) return false;
  }
  return true;
}

HEADRACE_INLINE void change_each_inline(Arithmetic what, const float* numbers, int64_t count, float* values) {
  switch (what) {
    case kAdd:
      for (int64_t i = 0; i < count; ++i) values[i] += numbers[i];
      break;
    case kSubtract:
      for (int64_t i = 0; i < count; ++i) values[i] -= numbers[i];
      break;
    case kMultiply:
      for (int64_t i = 0; i < count; ++i) values[i] *= numbers[i];
      break;
    case kDivide:
      for (int64_t i = 0; i < count; ++i) values[i] /= numbers[i];
      break;
  }
}
HEADRACE_DISPATCH(void, change_each, (Arithmetic what, const float* numbers, int64_t count, float* values), (what, numbers, count, values))

}  // namespace

RowScaling::RowScaling(std::vector<Arithmetic> operations, const std::vector<float>& numbers, int64_t values)
    : operations_(std::move(operations)), numbers_(operations_.size() * size_t(values)), values_(values) {
  const size_t each = numbers.size() / operations_.size();
  for (size_t i = 0; i < numbers_.size(); ++i) numbers_[i] = numbers[i / size_t(values) * each + i % size_t(values) % each];
}

void RowScaling::operator()(float* row) const {
  const float* numbers = numbers_.data();
  for (const Arithmetic what : operations_) {
    change_each(what, numbers, values_, row);
    numbers += values_;
  }
}

Scaling::Scaling(std::vector<Operation> operations) : operations_(std::move(operations)) {
  const Operation first = operations_[0];
  if (first.what != kDivide) return;
  const double whole = 1 / double(first.number);
  high_ = float(whole);
  uint32_t bits;
  std::memcpy(&bits, &high_, sizeof bits);
  bits &= ~uint32_t(0xFF);
  std::memcpy(&high_, &bits, sizeof bits);
  low_ = float(whole - double(high_));
  multiplies_ = divide_by(first.number, high_, low_);
}

void Scaling::operator()(const uint8_t* values, int64_t count, float* out) const {
  for (int64_t at = 0; at < count; at += kRun) {
    const int64_t run = std::min(kRun, count - at);
    if (multiplies_) {
      multiply_bytes(values + at, run, high_, low_, out + at);
    } else {
      change_bytes(values + at, run, operations_[0], out + at);
    }
    for (size_t i = 1; i < operations_.size(); ++i) change_floats(out + at, run, operations_[i]);
  }
}

void Scaling::with_help(const uint8_t* values, int64_t count, float* out) const {
  in_pieces(count, grain_of(count, count * int64_t(sizeof(float))),
            [this, values, out](int64_t begin, int64_t end) { (*this)(values + begin, end - begin, out + begin); });
}

}  // namespace headrace
