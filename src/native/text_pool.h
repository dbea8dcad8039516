// Texts that are stored one by one and returned in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "growing.h"

namespace headrace {

// Each text has a slot number from 0 on. Memory and numbers of dropped texts are reused.
class TextPool {
 public:
  TextPool() = default;
  TextPool(const TextPool&) = delete;
  TextPool& operator=(const TextPool&) = delete;
  ~TextPool();

  // Copy text i, from offsets[i] to before offsets[i + 1], and return its slot. Throws std::bad_alloc.
  void keep(const uint8_t* values, const int64_t* offsets, int64_t count, int64_t* places);

  bool holds(int64_t place) const { return place >= 0 && size_t(place) < texts_.size() && texts_[size_t(place)].size >= 0; }

  // Copy the texts of these slots, concatenated; empty slots give an empty text.
  void read(const int64_t* places, int64_t count, Growing<uint8_t>& values, Growing<int64_t>& offsets) const;

  // Drop the texts of these slots.
  void drop(const int64_t* places, int64_t count);

 private:
  struct Text {
    uint8_t* memory = nullptr;
    int64_t size = -1;  // empty
    int64_t room = 0;
  };

  int64_t free_place();

  std::vector<Text> texts_;
  std::vector<int64_t> free_;
  size_t usual_ = 0;  // how many were kept at a time recently
};

}  // namespace headrace
