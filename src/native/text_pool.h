// Texts that are kept one by one and given out in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "growing.h"

namespace headrace {

// Each text lies at a place, a number from 0 on. Memory and numbers of texts that were dropped are used again.
class TextPool {
 public:
  TextPool() = default;
  TextPool(const TextPool&) = delete;
  TextPool& operator=(const TextPool&) = delete;
  ~TextPool();

  // Copies text i, which lies from offsets[i] to before offsets[i + 1], and says where it is now. Throws std::bad_alloc.
  void keep(const uint8_t* values, const int64_t* offsets, int64_t count, int64_t* places);

  bool holds(int64_t place) const { return place >= 0 && size_t(place) < texts_.size() && texts_[size_t(place)].size >= 0; }

  // Copies the texts of these places, one after another; of places that hold none, an empty one.
  void read(const int64_t* places, int64_t count, Growing<uint8_t>& values, Growing<int64_t>& offsets) const;

  // Lets go of the texts of these places.
  void drop(const int64_t* places, int64_t count);

 private:
  struct Text {
    uint8_t* memory = nullptr;
    int64_t size = -1;  // none lies here
    int64_t room = 0;
  };

  int64_t free_place();

  std::vector<Text> texts_;
  std::vector<int64_t> free_;
  size_t usual_ = 0;  // so many were kept at a time of late
};

}  // namespace headrace
