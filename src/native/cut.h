// Offsets at which text files can be divided: where a record certainly begins, found without parsing it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "growing.h"

namespace headrace {

// For each position its offset, and how many records and line ends come before it. Offsets are at least `target` bytes
// apart, with at least one record between two of them. A record is preferred whose number, from `before` on, is a multiple
// of `group`, if there is one within twice as many bytes.
struct CutPoints {
  Growing<int64_t> offsets, rows, lines;
};

// Bytes to cut; the first record begins at `start`. `rows` and `lines` come before that.
struct CutInput {
  const uint8_t* data;
  size_t size;
  size_t start;
  int64_t target;
  int64_t rows = 0, lines = 0;
  int64_t group = 1, before = 0;
  bool portable = false;  // without instructions that only some processors have
};

// Lines of text end with LF; carriage returns alone at the end are no line.
void cut_text(const CutInput& input, CutPoints& out);

// The same, but lines of nothing but white space are no records.
void cut_json_lines(const CutInput& input, CutPoints& out);

// CSV by the rules of csv.cc; `quote` is -1 if there is none.
void cut_csv(const CutInput& input, uint8_t delimiter, int quote, CutPoints& out);

}  // namespace headrace
