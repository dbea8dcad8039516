#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "limited.h"

namespace headrace::python {

// A cache of recent short strings: columns of text often hold few distinct ones, and creating an object takes several
// times as long as reusing one. Callers hold the GIL.
class RecentText {
 public:
  static RecentText& shared() {
    static RecentText* const made = new RecentText;  // never destroyed: Python may be gone by then
    return *made;
  }

  // Whether to use the cache for the next rows: if there were hardly any hits, most calls skip it.
  bool is_worthwhile() { return idle_ == 0 || --idle_ == 0; }

  void note(size_t rows, size_t found) {
    if (found < rows / kLeastShare) idle_ = kIdleCalls;
  }

  // A new reference to ASCII text; null if Python is out of memory.
  PyObject* get(const uint8_t* data, size_t size, size_t& found) {
    if (size > kLongest) return ascii_text(data, size);
    PyObject*& place = places_[hash(data, size) >> (64 - kBits)];
    if (place && is_ascii_text(place, data, size)) {
      ++found;
      Py_INCREF(place);
      return place;
    }
    PyObject* const made = ascii_text(data, size);
    if (made) {
      Py_INCREF(made);
      Py_XDECREF(std::exchange(place, made));
    }
    return made;
  }

 private:
  static constexpr size_t kLongest = 32, kBits = 12, kLeastShare = 4, kIdleCalls = 32;

  static uint64_t load(const uint8_t* data, size_t size) {
    uint64_t word = 0;
    std::memcpy(&word, data, size);
    return word;
  }

  static uint64_t mix(uint64_t mixed, uint64_t word) {
    mixed = (mixed ^ word) * 0x9E3779B97F4A7C15u;
    return mixed ^ mixed >> 32;
  }

  static uint64_t hash(const uint8_t* data, size_t size) {
    uint64_t mixed = size;
    if (size < 8) {
      const uint64_t word = size >= 4 ? load(data, 4) | load(data + size - 4, 4) << 32
                            : size    ? uint64_t(data[0]) | uint64_t(data[size / 2]) << 8 | uint64_t(data[size - 1]) << 16
                                      : 0;
      return mix(mixed, word) * 0x9E3779B97F4A7C15u;
    }
    for (size_t at = 0; at + 8 < size; at += 8) mixed = mix(mixed, load(data + at, 8));
    return mix(mixed, load(data + size - 8, 8)) * 0x9E3779B97F4A7C15u;
  }

  std::vector<PyObject*> places_ = std::vector<PyObject*>(size_t(1) << kBits);
  size_t idle_ = 0;
};

}  // namespace headrace::python
