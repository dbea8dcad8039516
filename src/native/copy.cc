#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels.h"
#include "team.h"

namespace headrace {
namespace {

// Pieces of kBytes each, `step` apart. `from` is the first one.
template <int kBytes>
void copy_pieces(const uint8_t* from, int64_t step, int64_t count, uint8_t* to) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * kBytes, from + i * step, kBytes);
}

// Three bytes are moved as four, of which the next piece overwrites the last; bytes beyond the piece are read only if
// another piece follows.
void copy_threes(const uint8_t* from, int64_t step, int64_t count, uint8_t* to) {
  if (count < 3 || (step < 3 && step > -3)) return copy_pieces<3>(from, step, count, to);
  std::memcpy(to, from, 3);
  for (int64_t i = 1; i < count - 1; ++i) std::memcpy(to + i * 3, from + i * step, 4);
  std::memcpy(to + (count - 1) * 3, from + (count - 1) * step, 3);
}

void copy_line(const uint8_t* from, int64_t step, int64_t count, int64_t bytes, uint8_t* to) {
  switch (bytes) {
    case 1: return copy_pieces<1>(from, step, count, to);
    case 2: return copy_pieces<2>(from, step, count, to);
    case 3: return copy_threes(from, step, count, to);
    case 4: return copy_pieces<4>(from, step, count, to);
    case 6: return copy_pieces<6>(from, step, count, to);
    case 8: return copy_pieces<8>(from, step, count, to);
    case 12: return copy_pieces<12>(from, step, count, to);
    case 16: return copy_pieces<16>(from, step, count, to);
    case 24: return copy_pieces<24>(from, step, count, to);
  }
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * bytes, from + i * step, size_t(bytes));
}

struct Axes {
  std::vector<int64_t> sizes, steps;
  int64_t bytes;  // of the innermost pieces
};

// Merge axes that are contiguous in memory; innermost ones without gaps are the pieces.
Axes merged(const int64_t* sizes, const int64_t* steps, int axes, int64_t bytes) {
  Axes made{{}, {}, bytes};
  for (int i = axes - 1; i >= 0; --i) {
    if (sizes[i] == 1) continue;
    if (made.sizes.empty() && steps[i] == made.bytes) {
      made.bytes *= sizes[i];
    } else if (!made.sizes.empty() && steps[i] == made.steps.back() * made.sizes.back()) {
      made.sizes.back() *= sizes[i];
    } else {
      made.sizes.push_back(sizes[i]);
      made.steps.push_back(steps[i]);
    }
  }
  return made;
}

// From axis `axis`, counted from the innermost, inwards; return the end of the output.
uint8_t* copy_axis(const Axes& axes, size_t axis, const uint8_t* from, uint8_t* to) {
  if (axes.sizes.empty()) {
    std::memcpy(to, from, size_t(axes.bytes));
    return to + axes.bytes;
  }
  if (axis == 0) {
    copy_line(from, axes.steps[0], axes.sizes[0], axes.bytes, to);
    return to + axes.sizes[0] * axes.bytes;
  }
  for (int64_t i = 0; i < axes.sizes[axis]; ++i) to = copy_axis(axes, axis - 1, from + i * axes.steps[axis], to);
  return to;
}

}  // namespace

void copy_strided(const uint8_t* rows, int64_t row_step, const int64_t* indices, int64_t count, const int64_t* sizes,
                  const int64_t* steps, int axes, int64_t item_bytes, const int64_t* places, uint8_t* out) {
  int64_t row_bytes = item_bytes;
  for (int i = 0; i < axes; ++i) row_bytes *= sizes[i];
  if (row_bytes == 0) return;
  const Axes one = merged(sizes, steps, axes, item_bytes);
  const bool side_by_side = one.sizes.empty() && row_step == row_bytes && !indices && !places;
  in_pieces(count, grain_of(count, count * row_bytes), [&](int64_t begin, int64_t end) {
    if (side_by_side) {
      std::memcpy(out + begin * row_bytes, rows + begin * row_bytes, size_t((end - begin) * row_bytes));
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t* from = rows + (indices ? indices[i] : i) * row_step;
      copy_axis(one, one.sizes.empty() ? 0 : one.sizes.size() - 1, from, out + (places ? places[i] : i) * row_bytes);
    }
  });
}

}  // namespace headrace
