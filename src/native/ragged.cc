#include <cstring>

#include "kernels.h"
#include "team.h"

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

void text_pick(const TextPart* parts, const int64_t* which, const int64_t* rows, int64_t count, Growing<uint8_t>& out,
               int64_t* offsets) {
  const auto row_at = [&](int64_t i) { return parts[which[i]].offsets + rows[i]; };
  offsets[0] = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t* row = row_at(i);
    offsets[i + 1] = offsets[i] + row[1] - row[0];
  }
  uint8_t* to = out.extend(size_t(offsets[count]));
  in_pieces(count, grain_of(count, offsets[count]), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const size_t bytes = size_t(offsets[i + 1] - offsets[i]);
      if (bytes) std::memcpy(to + offsets[i], parts[which[i]].values + *row_at(i), bytes);
    }
  });
}

void bytes_pick(const uint8_t* const* parts, const int64_t* which, const int64_t* bounds, int64_t count, uint8_t* out) {
  constexpr int64_t kAhead = 8;  // prefetch distance, for scattered rows
  for (int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) __builtin_prefetch(parts[which[i + kAhead]] + bounds[2 * (i + kAhead)]);
    const size_t bytes = size_t(bounds[2 * i + 1] - bounds[2 * i]);
    if (bytes) std::memcpy(out, parts[which[i]] + bounds[2 * i], bytes);
    out += bytes;
  }
}

void ragged_pad(const uint8_t* values, size_t value_bytes, const int64_t* offsets, int64_t groups, int64_t size,
                const int64_t* lengths, const uint8_t* filler, uint8_t* out) {
  for (int64_t group = 0; group < groups; ++group) {
    const size_t row_bytes = size_t(lengths[group]) * value_bytes;
    for (int64_t i = group * size; i < (group + 1) * size; ++i, out += row_bytes) {
      const size_t bytes = size_t(offsets[i + 1] - offsets[i]) * value_bytes;
      if (bytes) std::memcpy(out, values + size_t(offsets[i]) * value_bytes, bytes);
      if (!filler) {
        std::memset(out + bytes, 0, row_bytes - bytes);
        continue;
      }
      for (size_t at = bytes; at < row_bytes; at += value_bytes) std::memcpy(out + at, filler, value_bytes);
    }
  }
}

}  // namespace headrace
