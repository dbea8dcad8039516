// Columns of numbers out of columns of ids: buckets, counts and the rows of tables put together.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels.h"

namespace headrace {
namespace {

// TensorFlow's threads treat subnormal numbers as 0.
float flushed(float value) { return std::fabs(value) < std::numeric_limits<float>::min() ? 0.0f : value; }

}  // namespace

void bucketize(const float* values, int64_t count, const float* bounds, int64_t bounds_count, int64_t* out) {
  if (bounds_count <= 32) {  // a linear search is faster for so few bounds, several values at a time
    constexpr int64_t kAtOnce = 64;
    for (int64_t start = 0; start < count; start += kAtOnce) {
      const int64_t some = std::min(kAtOnce, count - start);
      int32_t above[kAtOnce] = {};
      float held[kAtOnce];
      for (int64_t i = 0; i < some; ++i) held[i] = flushed(values[start + i]);
      for (int64_t b = 0; b < bounds_count; ++b) {
        const float bound = flushed(bounds[b]);
        for (int64_t i = 0; i < some; ++i) above[i] += !(held[i] < bound);
      }
      for (int64_t i = 0; i < some; ++i) out[start + i] = above[i];
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const float value = flushed(values[i]);
    const float* low = bounds;
    for (int64_t left = bounds_count; left > 0;) {
      const int64_t half = left / 2;
      const bool beyond = !(value < flushed(low[half]));  // NaN is beyond all
      low = beyond ? low + half + 1 : low;
      left = beyond ? left - half - 1 : half;
    }
    out[i] = low - bounds;
  }
}

void add_counts(const int64_t* ids, const int64_t* offsets, int64_t rows, const float* weights, int64_t depth, float* out,
                int64_t width) {
  for (int64_t row = 0; row < rows; ++row, out += width) {
    for (int64_t i = offsets[row]; i < offsets[row + 1]; ++i) {
      if (ids[i] >= 0 && ids[i] < depth) out[ids[i]] += weights ? weights[i] : 1.0f;
    }
  }
}

void add_embeddings(const int64_t* ids, const int64_t* offsets, int64_t rows, const float* weights, const float* table,
                    int64_t depth, int64_t dimension, Combiner combiner, float* out, int64_t width) {
  for (int64_t row = 0; row < rows; ++row, out += width) {
    float total = 0;
    for (int64_t i = offsets[row]; i < offsets[row + 1]; ++i) {
      const float weight = weights ? weights[i] : 1.0f;
      if (ids[i] < 0 || ids[i] >= depth || (combiner != Combiner::kSum && !(weight > 0))) continue;
      total += combiner == Combiner::kSqrtn ? weight * weight : weight;
      const float* const line = table + ids[i] * dimension;
      for (int64_t d = 0; d < dimension; ++d) out[d] += weight * line[d];
    }
    if (combiner == Combiner::kSum || !(total > 0)) continue;
    const float by = combiner == Combiner::kSqrtn ? std::sqrt(total) : total;
    for (int64_t d = 0; d < dimension; ++d) out[d] /= by;
  }
}

}  // namespace headrace
