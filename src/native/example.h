// tf.Example and tf.SequenceExample to columns and back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "growing.h"
#include "wire.h"

namespace headrace {

// What a feature holds, by the number of the field in tf.train.Feature.
enum class Kind : uint8_t { kNone = 0, kBytes = 1, kFloat = 2, kInt64 = 3 };

// One requested column.
struct Request {
  std::string name;
  Kind kind;
  bool in_steps;    // one of a SequenceExample's feature lists, which has a number of values for each step
  int64_t size;     // the number of values in each record, or in each step; -1: any number
  int64_t multiple; // any number that is a multiple of this
  bool required;    // an error if it is missing; else the default, or no values
  bool skip_empty;  // of several features with this name the last non-empty one counts, else just the last

  // Whether there is one number in each record.
  bool single_number() const { return size == 1 && !in_steps && kind != Kind::kBytes; }
  bool single_text() const { return size == 1 && !in_steps && kind == Kind::kBytes; }

  // What a record without the feature gets: as many values as `size` says.
  Growing<int64_t> default_ints;
  Growing<float> default_floats;
  std::vector<std::string> default_bytes;
};

// The values of all records, concatenated, and their boundaries. A column of single numbers has a slot for each record
// instead.
struct Column {
  int64_t* int_of = nullptr;
  float* float_of = nullptr;

  Growing<int64_t> ints;
  Growing<float> floats;
  Growing<uint8_t> bytes;
  Growing<int64_t> byte_ends;  // where each value of `bytes` ends, after a 0
  bool pointed = false;        // if so, there are no `bytes`, but `texts`: pointers to the values
  Growing<const uint8_t*> texts;
  Growing<int64_t> splits;     // of columns without a size: where the values of each record, or step, end, after a 0
  Growing<int64_t> steps;      // of columns in steps: where the steps of each record end, after a 0

  size_t values(Kind kind) const;

  // Append one text; the bytes that it is read from extend to `end`.
  void push_text(const uint8_t* from, size_t size, const uint8_t* end);
  // Keep at most this many texts.
  void shrink_text(size_t values);
};

// The parsed records: one column per request. Those of single numbers are contiguous in `ints` and in `floats`.
struct Columns {
  std::vector<Column> columns;
  Growing<int64_t> ints;
  Growing<float> floats;
  size_t rows = 0;
  size_t record_bytes = 0;  // of all the records together, if they come piece by piece
};

// Why a record was rejected; row -1 if none was.
struct Refusal {
  int64_t row = -1;
  std::string what;
};

// Names and their numbers, in the order in which they were added.
using Names = std::unordered_map<std::string_view, size_t>;

class ExampleParser {
 public:
  // `closed`: a record with a feature, or a feature list, that no request names is rejected.
  explicit ExampleParser(std::vector<Request> requests, bool closed = false);
  ExampleParser(const ExampleParser&) = delete;

  const std::vector<Request>& requests() const { return requests_; }

  // Record i is values[offsets[i] .. offsets[i + 1]]. The columns are complete unless a record is rejected.
  // Thread-safe.
  Columns parse(const uint8_t* values, const int64_t* offsets, int64_t rows, Refusal& refusal) const;

  // The same piece by piece: columns for all rows, and then those from `first` on. False if a record was rejected.
  Columns begin(size_t rows) const;
  bool parse_some(const uint8_t* values, const int64_t* offsets, int64_t rows, int64_t first, Columns& made,
                  Refusal& refusal) const;
  // Columns for some rows of others, from `first` on: single numbers are written to their slots, single texts are
  // referenced.
  Columns part_of(const Columns& whole, int64_t first, int64_t rows) const;

 private:
  std::vector<Request> requests_;
  bool closed_;
  std::vector<size_t> numbers_;  // of each request's name, in its table
  Names features_;
  Names lists_;
};

// One column to be written: `rows` times `size` values, or as divided by `splits`.
struct Written {
  std::string name;
  Kind kind;
  int64_t size;
  const int64_t* splits;     // null: `size` values a row
  const void* values;        // int64_t, float or uint8_t
  const int64_t* byte_ends;  // for kBytes: value i is bytes[byte_ends[i] .. byte_ends[i + 1]]
};

// Serialised Examples, one after another; offsets gets rows + 1.
void encode_examples(const std::vector<Written>& columns, int64_t rows, Growing<uint8_t>& out, int64_t* offsets);

}  // namespace headrace
