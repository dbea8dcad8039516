#include "text_pool.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace headrace {
namespace {

constexpr int64_t kLittle = 256;  // bytes that may be wasted per text
constexpr int64_t kAhead = 3, kLine = 64, kFirst = 1024;  // prefetch distances for scattered texts

}  // namespace

TextPool::~TextPool() {
  for (Text& text : texts_) std::free(text.memory);
}

int64_t TextPool::free_place() {
  if (free_.empty()) {
    texts_.emplace_back();
    return int64_t(texts_.size()) - 1;
  }
  const int64_t place = free_.back();
  free_.pop_back();
  return place;
}

void TextPool::keep(const uint8_t* values, const int64_t* offsets, int64_t count, int64_t* places) {
  usual_ = size_t(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t size = offsets[i + 1] - offsets[i];
    places[i] = free_place();
    Text& text = texts_[size_t(places[i])];
    if (!text.memory || text.room < size || text.room > 2 * size + kLittle) {
      std::free(text.memory);
      text.room = std::max<int64_t>(size, 1);
      text.memory = static_cast<uint8_t*>(std::malloc(size_t(text.room)));
      if (!text.memory) {
        text.room = 0;
        throw std::bad_alloc();
      }
    }
    if (size) std::memcpy(text.memory, values + offsets[i], size_t(size));
    text.size = size;
  }
}

void TextPool::read(const int64_t* places, int64_t count, Growing<uint8_t>& values, Growing<int64_t>& offsets) const {
  int64_t* const ends = offsets.extend(size_t(count) + 1);
  ends[0] = 0;
  for (int64_t i = 0; i < count; ++i) ends[i + 1] = ends[i] + (holds(places[i]) ? texts_[size_t(places[i])].size : 0);
  uint8_t* const out = values.extend(size_t(ends[count]));
  for (int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count && holds(places[i + kAhead])) {
      const Text& next = texts_[size_t(places[i + kAhead])];
      const int64_t stop = std::min(next.size, kFirst);
      for (int64_t at = 0; at < stop; at += kLine) __builtin_prefetch(next.memory + at);
    }
    const int64_t size = ends[i + 1] - ends[i];
    if (size) std::memcpy(out + ends[i], texts_[size_t(places[i])].memory, size_t(size));
  }
}

void TextPool::drop(const int64_t* places, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!holds(places[i])) continue;
    Text& text = texts_[size_t(places[i])];
    text.size = -1;
    free_.push_back(places[i]);
    if (free_.size() > usual_) {  // more than the next ones will need
      std::free(text.memory);
      text.memory = nullptr;
      text.room = 0;
    }
  }
}

}  // namespace headrace
