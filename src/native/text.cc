#include "text.h"

#include <algorithm>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "byte_map.h"
#include "parse_number.h"

namespace headrace {
namespace {

// Room for the largest possible number of words; the rest is returned at the end.
class WordWriter {
 public:
  WordWriter(const TextRows& text, WordsMade& out) : out_(out), limit_(text.values + text.offsets[text.rows]) {
    out.values.extend(text.bytes() + kWide);
    out.rows.extend(size_t(text.rows));
    at_ = out.values.data();
    row_ = out.rows.data() + 1;
  }

  uint8_t* place() const { return at_; }

  void end_word(uint8_t* stop) {
    at_ = stop;
    out_.offsets.push(stop - out_.values.data());
  }

  void word(const uint8_t* begin, size_t size) {
    if (size <= kWide && size_t(limit_ - begin) >= kWide) {
      std::memcpy(at_, begin, kWide);  // more than the word, which is faster than counting; the next one overwrites it
    } else {
      std::memcpy(at_, begin, size);
    }
    end_word(at_ + size);
  }

  void end_row() { *row_++ = int64_t(out_.offsets.size()) - 1; }

  void finish() { out_.values.shrink(size_t(at_ - out_.values.data())); }

 private:
  static constexpr size_t kWide = 16;
  WordsMade& out_;
  const uint8_t* limit_;
  uint8_t* at_;
  int64_t* row_;
};

// Which of 64 bytes are white space.
uint64_t spaces_in(const uint8_t* at) {
#ifdef __SSE2__
  uint64_t found = 0;
  for (int i = 0; i < 4; ++i) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 16 * i));
    const __m128i from_tab = _mm_sub_epi8(bytes, _mm_set1_epi8('\t'));  // 0 to 4 for those from \t to \r
    const __m128i control = _mm_cmpeq_epi8(_mm_subs_epu8(from_tab, _mm_set1_epi8(4)), _mm_setzero_si128());
    const __m128i space = _mm_or_si128(control, _mm_cmpeq_epi8(bytes, _mm_set1_epi8(' ')));
    found |= uint64_t(uint32_t(_mm_movemask_epi8(space))) << (16 * i);
  }
  return found;
#else
  uint64_t found = 0;
  for (int i = 0; i < 64; ++i) found |= uint64_t(is_space(at[i])) << i;
  return found;
#endif
}

// Calls `word(begin, size)` for each word of a row; bytes may be read up to `limit`.
template <typename Word>
void each_word(const uint8_t* begin, const uint8_t* end, const uint8_t* limit, Word word) {
  const uint8_t* start = nullptr;
  for (const uint8_t* at = begin; at < end; at += 64) {
    uint64_t spaces;
    if (limit - at >= 64) {
      spaces = spaces_in(at) | (end - at < 64 ? ~uint64_t(0) << (end - at) : 0);
    } else {
      uint8_t last[64];
      std::memset(last, ' ', sizeof last);
      std::memcpy(last, at, size_t(end - at));
      spaces = spaces_in(last);
    }
    // a word begins or ends where two adjacent bytes differ in class
    for (uint64_t turns = spaces ^ (spaces << 1 | (start ? 0 : 1)); turns; turns &= turns - 1) {
      const uint8_t* const here = at + __builtin_ctzll(turns);
      if (start) {
        word(start, size_t(here - start));
        start = nullptr;
      } else {
        start = here;
      }
    }
  }
  if (start) word(start, size_t(end - start));
}

void append(TextMade& out, const uint8_t* from, size_t size) { out.values.append(from, size); }

}  // namespace

void map_bytes(const TextRows& text, ByteMap map, TextMade& out) { ByteMapper{map}(text, out); }

void map_words(const TextRows& text, ByteMap map, WordsMade& out) {
  const ByteMapper mapper(map);
  if (mapper.splits_at_spaces()) {
    TextMade mapped;
    mapper(text, mapped);
    split_spaces({mapped.values.data(), mapped.offsets.data(), text.rows}, -1, out);
    return;
  }
  WordWriter words(text, out);
  for (int64_t row = 0; row < text.rows; ++row) {
    uint8_t* to = words.place();
    for (const uint8_t *at = text.begin(row), *end = text.end(row); at < end; ++at) {
      const uint16_t byte = map[*at];
      if (byte & kSpace) {
        if (to != words.place()) words.end_word(to);
      } else {
        *to = uint8_t(byte);
        to += !(byte & kDrop);
      }
    }
    if (to != words.place()) words.end_word(to);
    words.end_row();
  }
  words.finish();
}

void strip_spaces(const TextRows& text, TextMade& out) {
  uint8_t* const first = out.values.extend(text.bytes());
  int64_t* cut = out.offsets.extend(size_t(text.rows));
  uint8_t* to = first;
  for (int64_t row = 0; row < text.rows; ++row) {
    const uint8_t *begin = text.begin(row), *end = text.end(row);
    while (begin < end && is_space(*begin)) ++begin;
    while (begin < end && is_space(end[-1])) --end;
    if (begin < end) std::memcpy(to, begin, size_t(end - begin));
    to += end - begin;
    *cut++ = to - first;
  }
  out.values.shrink(size_t(to - first));
}

void split_spaces(const TextRows& text, int64_t most, WordsMade& out) {
  WordWriter words(text, out);
  const uint8_t* const limit = text.values + text.offsets[text.rows];
  for (int64_t row = 0; row < text.rows; ++row) {
    const uint8_t *at = text.begin(row), *const end = text.end(row);
    if (most < 0) {
      each_word(at, end, limit, [&](const uint8_t* begin, size_t size) { words.word(begin, size); });
      words.end_row();
      continue;
    }
    for (int64_t cuts = 0;; ++cuts) {
      while (at < end && is_space(*at)) ++at;
      if (at == end) break;
      const uint8_t* const begin = at;
      if (cuts == most) at = end;
      while (at < end && !is_space(*at)) ++at;
      words.word(begin, size_t(at - begin));
    }
    words.end_row();
  }
  words.finish();
}

void split_at(const TextRows& text, const uint8_t* separator, size_t size, int64_t most, WordsMade& out) {
  WordWriter words(text, out);
  for (int64_t row = 0; row < text.rows; ++row) {
    const uint8_t *begin = text.begin(row), *const end = text.end(row), *at = begin;
    for (int64_t cuts = 0; cuts != most; ++cuts) {
      for (;; ++at) {
        at = size_t(end - at) < size ? nullptr
                                     : static_cast<const uint8_t*>(std::memchr(at, separator[0], size_t(end - at) - size + 1));
        if (!at || !std::memcmp(at, separator, size)) break;
      }
      if (!at) break;
      words.word(begin, size_t(at - begin));
      begin = at = at + size;
    }
    words.word(begin, size_t(end - begin));
    words.end_row();
  }
  words.finish();
}

void join_words(const WordRows& words, const uint8_t* separator, size_t size, TextMade& out) {
  for (int64_t row = 0; row < words.count; ++row) {
    for (int64_t word = words.rows[row]; word < words.rows[row + 1]; ++word) {
      if (word > words.rows[row]) append(out, separator, size);
      append(out, words.words.begin(word), size_t(words.words.end(word) - words.words.begin(word)));
    }
    out.end_row();
  }
}

void ngrams(const WordRows& words, const NGrams& how, WordsMade& out) {
  for (int64_t row = 0; row < words.count; ++row) {
    const int64_t first = words.rows[row], length = words.rows[row + 1] - first;
    const auto write_run = [&](int64_t start, int64_t width) {  // positions before 0 and from `length` on are padding
      for (int64_t place = start; place < start + width; ++place) {
        if (place > start) append(out, how.separator, how.separator_size);
        if (place < 0) {
          append(out, how.left, how.left_size);
        } else if (place >= length) {
          append(out, how.right, how.right_size);
        } else {
          const int64_t word = first + place;
          append(out, words.words.begin(word), size_t(words.words.end(word) - words.words.begin(word)));
        }
      }
      out.end_row();
    };
    bool any = false;
    for (const int64_t width : how.widths) {
      const int64_t padding = how.padding < 0 ? width - 1 : std::min(how.padding, width - 1);
      for (int64_t start = -padding; start + width <= length + padding; ++start, any = true) write_run(start, width);
    }
    if (!any && how.keep_short && length) {
      const int64_t padding = std::max<int64_t>(how.padding, 0);
      write_run(-padding, length + 2 * padding);
    }
    out.end_line();
  }
}

template <typename T>
int64_t to_numbers(const TextRows& text, T* out) {
  for (int64_t row = 0; row < text.rows; ++row) {
    const char* const begin = reinterpret_cast<const char*>(text.begin(row));
    const char* const end = reinterpret_cast<const char*>(text.end(row));
    bool fine;
    if constexpr (std::is_integral_v<T>) {
      fine = parsed_integer(begin, end, out[row]);
    } else {
      fine = parsed_float(begin, end, out[row]);
    }
    if (!fine) return row;
  }
  return -1;
}

template int64_t to_numbers(const TextRows&, int32_t*);
template int64_t to_numbers(const TextRows&, int64_t*);
template int64_t to_numbers(const TextRows&, float*);
template int64_t to_numbers(const TextRows&, double*);

void cut_lines(const uint8_t* data, size_t size, int64_t most, bool final, LinesCut& out) {
  uint8_t* const begin = out.lines.values.extend(size);
  uint8_t* to = begin;
  const auto put = [&](const uint8_t* from, size_t count) {
    const void* found = std::memchr(from, '\r', count);
    if (!found) {
      std::memcpy(to, from, count);
      to += count;
    } else {
      to = std::remove_copy(from, from + count, to, uint8_t('\r'));
    }
    out.lines.offsets.push(to - begin);
  };
  size_t at = 0;
  out.starts.push(0);
  for (int64_t lines = 0; at < size; ++lines) {
    const auto* end = static_cast<const uint8_t*>(std::memchr(data + at, '\n', size - at));
    if (!end) break;
    if (lines == most) {
      out.more = true;
      break;
    }
    put(data + at, size_t(end - data) - at);
    at = size_t(end - data) + 1;
    out.starts.push(int64_t(at));
  }
  if (final && !out.more) {
    if (std::any_of(data + at, data + size, [](uint8_t c) { return c != '\r'; })) {
      put(data + at, size - at);
      out.starts.push(int64_t(size) + 1);  // as if it had a line feed
    }
    at = size;
  }
  out.used = at;
  out.lines.values.shrink(size_t(to - begin));
}

}  // namespace headrace
