// Columns of text: row i is values[offsets[i] .. offsets[i + 1]]. Callers check the offsets, and nothing else of the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "growing.h"

namespace headrace {

struct TextRows {
  const uint8_t* values;
  const int64_t* offsets;
  int64_t rows;

  const uint8_t* begin(int64_t row) const { return values + offsets[row]; }
  const uint8_t* end(int64_t row) const { return values + offsets[row + 1]; }
  size_t bytes() const { return size_t(offsets[rows] - offsets[0]); }
};

// Rows that are appended; `offsets` begins with 0.
struct TextMade {
  Growing<uint8_t> values;
  Growing<int64_t> offsets;

  TextMade() { offsets.push(0); }
  void end_row() { offsets.push(int64_t(values.size())); }
};

// Lines of a file, each up to a line feed, without carriage returns; `starts` has the offset of each, and the end of
// the last one. Bytes after the last line feed are a line only at the end of the file, and only if they hold more than
// carriage returns.
struct LinesCut {
  TextMade lines;
  Growing<int64_t> starts;
  size_t used = 0;
  bool more = false;  // there are line feeds beyond the requested lines
};
void cut_lines(const uint8_t* data, size_t size, int64_t most, bool final, LinesCut& out);

// The same for rows of any number of texts; `rows` is the cumulative count.
struct WordsMade : TextMade {
  Growing<int64_t> rows;

  WordsMade() { rows.push(0); }
  void end_line() { rows.push(int64_t(offsets.size()) - 1); }
};

// Rows of texts: those of row i are number rows[i] to before rows[i + 1].
struct WordRows {
  TextRows words;
  const int64_t* rows;
  int64_t count;
};

// The mapping of each byte: another one, kDrop for nothing, kSpace for the end of a word.
constexpr uint16_t kDrop = 0x100, kSpace = 0x200;
using ByteMap = const uint16_t*;

// Map bytes, row by row, without kSpace.
void map_bytes(const TextRows& text, ByteMap map, TextMade& out);

// Map bytes, and split words at kSpace; there are no empty words.
void map_words(const TextRows& text, ByteMap map, WordsMade& out);

// Strip ASCII white space at both ends.
void strip_spaces(const TextRows& text, TextMade& out);

// Words between white space, or between separators; after `most` cuts (-1: any number), the rest is one word.
void split_spaces(const TextRows& text, int64_t most, WordsMade& out);
void split_at(const TextRows& text, const uint8_t* separator, size_t size, int64_t most, WordsMade& out);

// The texts of each row, with a separator between them.
void join_words(const WordRows& words, const uint8_t* separator, size_t size, TextMade& out);

// N-grams of neighbors, for each width, as one text each.
struct NGrams {
  std::vector<int64_t> widths;
  const uint8_t* separator;
  size_t separator_size;
  const uint8_t* left;  // the padding before the first and after the last text of a row
  size_t left_size;
  const uint8_t* right;
  size_t right_size;
  int64_t padding;  // how many of them, at most width - 1; -1: as many as that
  bool keep_short;  // a row that is too short for any width is one n-gram
};
void ngrams(const WordRows& words, const NGrams& how, WordsMade& out);

// Parse the number in each row; return the first row without one, or -1.
template <typename T>
int64_t to_numbers(const TextRows& text, T* out);

// Parts of rows, from `start` (from the end if negative) for at most `length` bytes or characters.
enum class CutProblem : int { kNone = 0, kBeyond = 1, kInside = 2 };  // out of range; within a character
struct Cut {
  int64_t start, length;
  bool characters;
  bool whole;  // whether bytes must be cut between characters
};
struct CutFailure {
  int64_t row;
  CutProblem problem;
};
CutFailure cut_rows(const TextRows& text, const Cut& cut, TextMade& out);

// How many characters each row has: bytes that are not continuation bytes.
void count_characters(const TextRows& text, int32_t* out);

// Invalid UTF-8: each maximal prefix of a character becomes `replacement`, or nothing, or is an error.
enum class Malformed : int { kReplace = 0, kDrop = 1, kRefuse = 2 };
struct Decoding {
  Malformed malformed;
  uint32_t replacement;
  bool replace_control;  // of the codes below 32, too
};

// The codes of the characters of each row; the characters as texts. Return the first rejected row, or -1.
int64_t decode_characters(const TextRows& text, const Decoding& how, Growing<int32_t>& codes, Growing<int64_t>& rows);
int64_t split_characters(const TextRows& text, const Decoding& how, WordsMade& out);

// Map characters by a table: code c becomes table[cuts[c] .. cuts[c + 1]], others stay. Rows with the character
// `special` are noted: its mapping depends on its neighbors.
struct CharacterMap {
  const uint8_t* table;
  const int64_t* cuts;
  uint32_t size;
  uint32_t special;
};
void map_characters(const TextRows& text, const CharacterMap& map, TextMade& out, Growing<int64_t>& noted);

}  // namespace headrace
