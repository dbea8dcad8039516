// Hashes and ids: any bytes as rows, hashed, looked up, crossed, counted.
#include <cmath>
#include <map>
#include <vector>

#include "../../src/native/id_program.h"
#include "../../src/native/kernels.h"
#include "check.h"

using namespace headrace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const uint64_t buckets = 1 + data[0] * 257u;
  const size_t step = 1 + data[1] % 97;
  const std::vector<uint8_t> bytes(data + 2, data + size);  // of its own, so that no read beyond it goes unnoticed
  std::vector<int64_t> offsets{0};
  while (size_t(offsets.back()) < bytes.size()) {  // every other row may be empty
    const size_t here = size_t(offsets.back());
    offsets.push_back(int64_t(std::min(bytes.size(), here + bytes[here] % (step + 1) + offsets.size() % 2)));
  }
  const int64_t rows = int64_t(offsets.size()) - 1;
  std::vector<uint64_t> hashes(rows), salted(rows), numbers(rows);
  const uint64_t salt[2] = {data[0], data[1]};
  hash_text(bytes.data(), offsets.data(), rows, nullptr, hashes.data());
  hash_text(bytes.data(), offsets.data(), rows, salt, salted.data());
  hash_numbers(reinterpret_cast<const int64_t*>(hashes.data()), rows, nullptr, numbers.data());
  std::vector<int64_t> ids(rows);
  hash_buckets(hashes.data(), rows, buckets, 0, ids.data());
  for (int64_t i = 0; i < rows; ++i) CHECK(uint64_t(ids[size_t(i)]) == hashes[size_t(i)] % buckets);

  IdProgram program;
  program.add_hashed(0, buckets);
  program.add_crossed({0, 0}, data[1], buckets);
  std::vector<int64_t> both(size_t(rows) * 2);
  program.run({{bytes.data(), offsets.data()}}, {}, rows, both.data());
  for (size_t i = 0; i < size_t(rows); ++i) {
    CHECK(both[i] == (offsets[i] == offsets[i + 1] ? -1 : ids[i]));
    CHECK(uint64_t(both[size_t(rows) + i]) == combine(combine(data[1], hashes[i]), hashes[i]) % buckets);
  }

  const TextTable table(bytes.data(), offsets.data(), rows);
  std::vector<int64_t> places(rows);
  table.find(bytes.data(), offsets.data(), rows, hashes.data(), places.data());
  for (int64_t i = 0; i < rows; ++i) CHECK(places[size_t(i)] >= 0 && places[size_t(i)] <= i);

  TextCounter counter;
  std::map<std::vector<uint8_t>, int64_t> wanted;
  for (const int64_t times : {1, 3}) {
    const std::vector<int64_t> each(size_t(rows) + 1, times);
    counter.add(bytes.data(), offsets.data(), rows, times == 1 ? nullptr : each.data());
    for (size_t i = 0; i < size_t(rows); ++i) wanted[{bytes.begin() + offsets[i], bytes.begin() + offsets[i + 1]}] += times;
  }
  const std::vector<int64_t> times = counter.counts();
  CHECK(times.size() == wanted.size() && counter.size() == wanted.size());
  const auto text = [&](int64_t row) {
    const uint8_t* const values = counter.values().data();
    return std::vector<uint8_t>(values + counter.offsets()[size_t(row)], values + counter.offsets()[size_t(row) + 1]);
  };
  for (size_t i = 0; i < times.size(); ++i) CHECK(wanted[text(int64_t(i))] == times[i]);
  const std::vector<int64_t> often = counter.most_frequent(step, 2);
  for (size_t i = 1; i < often.size(); ++i) {
    const int64_t one = times[size_t(often[i - 1])], other = times[size_t(often[i])];
    CHECK(one > other || (one == other && text(often[i - 1]) > text(often[i])));
  }

  std::vector<int64_t> cuts{0};  // some ids a row, at most three
  for (size_t i = 0; cuts.back() < rows; ++i) {
    cuts.push_back(std::min<int64_t>(rows, cuts.back() + int64_t(i % 2) + bytes[i % bytes.size()] % 3));
  }
  const int64_t lines = int64_t(cuts.size()) - 1;
  Growing<int64_t> crossed;
  std::vector<int64_t> ends(cuts.size());
  cross_product({{hashes.data(), cuts.data()}, {numbers.data(), cuts.data()}}, lines, data[1], buckets, crossed, ends.data());
  CHECK(size_t(ends.back()) == crossed.size());
  for (size_t i = 0; i < crossed.size(); ++i) CHECK(crossed[i] >= 0 && uint64_t(crossed[i]) < buckets);

  std::vector<float> values(bytes.begin(), bytes.end()), bounds;
  for (size_t i = 0; i < step; ++i) bounds.push_back(float(i) * 2.5f);
  if (bytes.size() > 3) values[0] = NAN;
  std::vector<int64_t> bucket(values.size());
  bucketize(values.data(), int64_t(values.size()), bounds.data(), int64_t(bounds.size()), bucket.data());
  for (const int64_t at : bucket) CHECK(at >= 0 && at <= int64_t(bounds.size()));

  constexpr int64_t kDepth = 50, kWidth = 60;
  std::vector<float> out(size_t(lines * kWidth)), rest(kDepth * 3, 0.5f), weights(ids.size(), -0.5f);
  add_counts(ids.data(), cuts.data(), lines, data[0] & 1 ? weights.data() : nullptr, kDepth, out.data() + 10, kWidth);
  add_embeddings(ids.data(), cuts.data(), lines, nullptr, rest.data(), kDepth, 3, Combiner(data[0] % 3), out.data(), kWidth);
  return 0;
}
