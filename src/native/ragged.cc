#include <cstring>

#include "kernels.h"

namespace headrace {

void ragged_take(const uint8_t* values, size_t value_bytes, const int64_t* offsets, const int64_t* indices, int64_t count,
                 uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = indices[i];
    const size_t bytes = size_t(offsets[row + 1] - offsets[row]) * value_bytes;
    std::memcpy(out, values + size_t(offsets[row]) * value_bytes, bytes);
    out += bytes;
  }
}

void ragged_pad(const uint8_t* values, size_t value_bytes, const int64_t* offsets, int64_t rows, int64_t length,
                uint8_t* out) {
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(out + size_t(i) * size_t(length) * value_bytes, values + size_t(offsets[i]) * value_bytes,
                size_t(offsets[i + 1] - offsets[i]) * value_bytes);
  }
}

}  // namespace headrace
