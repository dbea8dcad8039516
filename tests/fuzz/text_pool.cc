// Texts that are kept, read and dropped in any order, at places that hold one and places that do not: as a map has them.
#include "../../src/native/text_pool.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "check.h"

using namespace headrace;

namespace {

struct Reader {
  const uint8_t* at;
  const uint8_t* end;

  uint8_t byte() { return at < end ? *at++ : 0; }
};

// Places of the model, some of them twice, and some where nothing can be.
std::vector<int64_t> places_of(Reader& input, const std::map<int64_t, std::string>& model) {
  std::vector<int64_t> places(input.byte() % 9);
  for (int64_t& place : places) {
    const uint8_t chosen = input.byte();
    place = chosen % 8 ? chosen / 8 : chosen % 16 ? INT64_MAX - chosen : -int64_t(chosen) - 1;
    if (!model.empty() && chosen % 3 == 0) place = std::next(model.begin(), long(chosen % model.size()))->first;
  }
  return places;
}

void keep(TextPool& pool, std::map<int64_t, std::string>& model, Reader& input) {
  std::vector<uint8_t> bytes;
  std::vector<int64_t> offsets{0};
  for (int left = input.byte() % 6; left > 0; --left) {
    const uint8_t size = input.byte(), step = input.byte();
    bytes.insert(bytes.end(), size_t(step % 7 ? size % 16 : size * 9), input.byte());
    offsets.push_back(int64_t(bytes.size()));
  }
  bytes.shrink_to_fit();
  const int64_t count = int64_t(offsets.size()) - 1;
  std::vector<int64_t> places(static_cast<size_t>(count));
  pool.keep(bytes.data(), offsets.data(), count, places.data());
  for (size_t i = 0; i < places.size(); ++i) {
    const std::string text(bytes.begin() + offsets[i], bytes.begin() + offsets[i + 1]);
    CHECK(pool.holds(places[i]));
    CHECK(model.emplace(places[i], text).second);  // of its own
  }
}

void read(const TextPool& pool, const std::map<int64_t, std::string>& model, const std::vector<int64_t>& places) {
  Growing<uint8_t> values;
  Growing<int64_t> offsets;
  pool.read(places.data(), int64_t(places.size()), values, offsets);
  CHECK(offsets.size() == places.size() + 1 && offsets[0] == 0);
  for (size_t i = 0; i < places.size(); ++i) {
    const auto found = model.find(places[i]);
    CHECK(pool.holds(places[i]) == (found != model.end()));
    const std::string text(values.data() + offsets[i], values.data() + offsets[i + 1]);
    CHECK(text == (found == model.end() ? "" : found->second));
  }
  CHECK(values.size() == size_t(offsets[places.size()]));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader input{data, data + size};
  TextPool pool;
  std::map<int64_t, std::string> model;
  while (input.at < input.end) {
    const uint8_t what = input.byte() % 4;
    if (what < 2) {
      keep(pool, model, input);
      continue;
    }
    const std::vector<int64_t> places = places_of(input, model);
    read(pool, model, places);
    if (what == 2) continue;
    pool.drop(places.data(), int64_t(places.size()));
    for (const int64_t place : places) model.erase(place);
  }
  std::vector<int64_t> all;
  for (const auto& [place, text] : model) all.push_back(place);
  read(pool, model, all);
  return 0;
}
