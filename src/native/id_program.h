// The ids of many columns at once, if each row has one value of every feature.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"

namespace headrace {

// A feature of text: row i is values[offsets[i] .. offsets[i + 1]].
struct Text {
  const uint8_t* values;
  const int64_t* offsets;
};

class IdProgram {
 public:
  // Columns are added in the order of the rows of the result.
  void add_buckets(size_t feature, std::vector<float> bounds);
  void add_hashed(size_t text, uint64_t buckets);
  void add_crossed(std::vector<size_t> texts, uint64_t key, uint64_t buckets);

  size_t columns() const { return steps_.size(); }
  size_t texts() const { return texts_; }
  size_t features() const { return features_; }

  // out[c * rows + i] is the id of column c in row i; -1 if a hashed column has the empty text, which has no id.
  void run(const std::vector<Text>& texts, const std::vector<const float*>& features, int64_t rows, int64_t* out) const;

 private:
  enum class Kind { kBuckets, kHashed, kCrossed };
  struct Step {
    Kind kind;
    std::vector<size_t> inputs;
    uint64_t key;
    Modulo modulo;
    std::vector<float> bounds;
  };

  void use_text(size_t text);

  std::vector<Step> steps_;
  size_t texts_ = 0, features_ = 0;
};

}  // namespace headrace
