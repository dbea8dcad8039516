// Map each byte of a text, sixteen at a time if few ranges of bytes change.
#pragma once

#include "text.h"

namespace headrace {

class ByteMapper {
 public:
  explicit ByteMapper(ByteMap map);

  // Whether exactly ASCII white space ends words, and stays white space.
  bool splits_at_spaces() const { return splits_at_spaces_; }

  void operator()(const TextRows& text, TextMade& out) const;

 private:
  // Bytes from `low` on, up to `width` beyond it, to which `add` is added.
  struct Range {
    uint8_t low, width, add;
  };
  static constexpr size_t kMost = 8;  // with more of them the table is faster

  struct Ranges {
    Range each[kMost];
    size_t count = 0;
    bool add(uint8_t byte, uint8_t difference);
  };

  void by_table(const TextRows& text, TextMade& out) const;
#if defined(__x86_64__)
  void by_ranges(const TextRows& text, TextMade& out) const;
#endif

  ByteMap map_;
  Ranges moved_, dropped_;
  bool few_ranges_ = true, splits_at_spaces_ = true;
};

}  // namespace headrace
