#include <algorithm>
#include <cstring>

#include "text.h"

namespace headrace {
namespace {

constexpr uint32_t kBad = ~uint32_t(0);

struct Character {
  uint32_t code;  // kBad if there is none
  size_t size;    // of the invalid prefix, if there is none
};

bool goes_on(uint8_t byte) { return (byte & 0xc0) == 0x80; }

// The character at `at`, which is before `end`; the shortest form of a code, and no surrogates, are well-formed.
Character character_at(const uint8_t* at, const uint8_t* end) {
  const uint8_t lead = *at;
  if (lead < 0x80) return {lead, 1};
  const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return {kBad, 1};
  const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  uint32_t code = lead & (0xffu >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if (at + i == end || at[i] < (i == 1 ? low : 0x80) || at[i] > (i == 1 ? high : 0xbf)) return {kBad, i};
    code = code << 6 | (at[i] & 0x3f);
  }
  return {code, size};
}

void append_character(Growing<uint8_t>& out, uint32_t code) {
  if (code < 0x80) {
    out.push(uint8_t(code));
    return;
  }
  const int more = code >= 0x10000 ? 3 : code >= 0x800 ? 2 : 1;
  uint8_t* to = out.extend(size_t(more) + 1);
  *to = uint8_t((0xff00 >> (more + 1)) | (code >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) *++to = uint8_t(0x80 | ((code >> (6 * i)) & 0x3f));
}

// Call `take(code, begin, size)` for each character of a row that stays; false if one is rejected.
template <typename Take>
bool each_character(const uint8_t* at, const uint8_t* end, const Decoding& how, Take take) {
  for (Character here; at < end; at += here.size) {
    here = character_at(at, end);
    uint32_t code = here.code;
    if (code == kBad) {
      if (how.malformed == Malformed::kRefuse) return false;
      if (how.malformed == Malformed::kDrop) continue;
      code = how.replacement;
    } else if (how.replace_control && code < 32) {
      code = how.replacement;
    }
    take(code, at, here.size);
  }
  return true;
}

}  // namespace

void count_characters(const TextRows& text, int32_t* out) {
  for (int64_t row = 0; row < text.rows; ++row) {
    out[row] = int32_t(std::count_if(text.begin(row), text.end(row), [](uint8_t byte) { return !goes_on(byte); }));
  }
}

CutFailure cut_rows(const TextRows& text, const Cut& cut, TextMade& out) {
  for (int64_t row = 0; row < text.rows; ++row) {
    const uint8_t *const begin = text.begin(row), *const end = text.end(row);
    const auto steps = [&](const uint8_t* at, int64_t count) {  // to before the end
      if (!cut.characters) return at + std::min<int64_t>(count, end - at);
      for (; count > 0 && at < end; --count) {
        ++at;
        while (at < end && goes_on(*at)) ++at;
      }
      return at;
    };
    int64_t length = end - begin;
    if (cut.characters && begin < end) {  // a first byte without continuation is one, too
      length = 1 + std::count_if(begin + 1, end, [](uint8_t byte) { return !goes_on(byte); });
    }
    const int64_t start = cut.start < 0 ? cut.start + length : cut.start;
    if (start < 0 || start > length) return {row, CutProblem::kBeyond};
    const uint8_t* const from = steps(begin, start);
    const uint8_t* const to = steps(from, cut.length);
    if (cut.whole && ((from < end && goes_on(*from)) || (to < end && to > from && goes_on(*to)))) {
      return {row, CutProblem::kInside};
    }
    out.values.append(from, size_t(to - from));
    out.end_row();
  }
  return {-1, CutProblem::kNone};
}

int64_t decode_characters(const TextRows& text, const Decoding& how, Growing<int32_t>& codes, Growing<int64_t>& rows) {
  rows.push(0);
  for (int64_t row = 0; row < text.rows; ++row) {
    const bool fine = each_character(text.begin(row), text.end(row), how,
                                     [&](uint32_t code, const uint8_t*, size_t) { codes.push(int32_t(code)); });
    if (!fine) return row;
    rows.push(int64_t(codes.size()));
  }
  return -1;
}

int64_t split_characters(const TextRows& text, const Decoding& how, WordsMade& out) {
  for (int64_t row = 0; row < text.rows; ++row) {
    const bool fine = each_character(text.begin(row), text.end(row), how, [&](uint32_t code, const uint8_t*, size_t) {
      append_character(out.values, code);
      out.end_row();
    });
    if (!fine) return row;
    out.end_line();
  }
  return -1;
}

void map_characters(const TextRows& text, const CharacterMap& map, TextMade& out, Growing<int64_t>& noted) {
  const Decoding how{Malformed::kReplace, 0xfffd, false};
  for (int64_t row = 0; row < text.rows; ++row) {
    bool special = false;
    each_character(text.begin(row), text.end(row), how, [&](uint32_t code, const uint8_t*, size_t) {
      special |= code == map.special;
      if (code < map.size) {
        const size_t size = size_t(map.cuts[code + 1] - map.cuts[code]);
        if (size == 1) {
          out.values.push(map.table[map.cuts[code]]);
        } else {
          out.values.append(map.table + map.cuts[code], size);
        }
      } else {
        append_character(out.values, code);
      }
    });
    if (special) noted.push(row);
    out.end_row();
  }
}

}  // namespace headrace
