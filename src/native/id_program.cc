#include "id_program.h"

#include <algorithm>
#include <utility>

namespace headrace {
namespace {

constexpr int64_t kRun = 256;  // rows at a time, so that their hashes stay in the cache

}  // namespace

void IdProgram::use_text(size_t text) { texts_ = std::max(texts_, text + 1); }

void IdProgram::add_buckets(size_t feature, std::vector<float> bounds) {
  features_ = std::max(features_, feature + 1);
  steps_.push_back({Kind::kBuckets, {feature}, 0, Modulo(1), std::move(bounds)});
}

void IdProgram::add_hashed(size_t text, uint64_t buckets) {
  use_text(text);
  steps_.push_back({Kind::kHashed, {text}, 0, Modulo(buckets), {}});
}

void IdProgram::add_crossed(std::vector<size_t> texts, uint64_t key, uint64_t buckets) {
  for (const size_t text : texts) use_text(text);
  steps_.push_back({Kind::kCrossed, std::move(texts), key, Modulo(buckets), {}});
}

void IdProgram::run(const std::vector<Text>& texts, const std::vector<const float*>& features, int64_t rows,
                    int64_t* out) const {
  std::vector<uint64_t> hashes(texts_ * size_t(kRun));
  for (int64_t start = 0; start < rows; start += kRun) {
    const int64_t count = std::min(kRun, rows - start);
    for (size_t t = 0; t < texts_; ++t) {
      hash_text(texts[t].values, texts[t].offsets + start, count, nullptr, hashes.data() + t * size_t(kRun));
    }
    int64_t* to = out + start;
    for (const Step& step : steps_) {
      if (step.kind == Kind::kBuckets) {
        bucketize(features[step.inputs[0]] + start, count, step.bounds.data(), int64_t(step.bounds.size()), to);
      } else if (step.kind == Kind::kHashed) {
        const uint64_t* const from = hashes.data() + step.inputs[0] * size_t(kRun);
        const int64_t* const cuts = texts[step.inputs[0]].offsets + start;
        for (int64_t i = 0; i < count; ++i) to[i] = cuts[i] == cuts[i + 1] ? -1 : int64_t(step.modulo(from[i]));
      } else {
        for (int64_t i = 0; i < count; ++i) {
          uint64_t made = step.key;
          for (const size_t input : step.inputs) made = combine(made, hashes[input * size_t(kRun) + size_t(i)]);
          to[i] = int64_t(step.modulo(made));
        }
      }
      to += rows;
    }
  }
}

}  // namespace headrace
