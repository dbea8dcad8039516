// What each kernel offers; bindings.cc alone turns these into Python functions. Callers check sizes and ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "growing.h"

namespace headrace {

// A shuffle buffer of `capacity` slots over a stream of `total` rows (-1: not known to end yet). Step t first puts
// row capacity-1+t into the slot that step t-1 emptied, then gives out the row of slot draw(t). Once the rows are
// used up the slots close up, so that the draw is always uniform over the rows that are left.
struct ShuffleLaw {
  uint64_t key;
  int64_t capacity;
  int64_t total;
};

// How many slots the buffer ever uses.
int64_t slots_needed(const ShuffleLaw& law);

// The first step at which no row comes in.
int64_t tail_start(const ShuffleLaw& law);

// draws[i] = the slot given out at step first + i.
void shuffle_draws(ShuffleLaw law, int64_t first, int64_t count, int64_t* draws);

// Which row each slot holds before step t, -1 for the slot that is empty; returns how many slots are in use.
int64_t shuffle_held(ShuffleLaw law, int64_t t, int64_t* rows);

// rows[i] = the row given out at steps[i].
void shuffle_rows_at(ShuffleLaw law, const int64_t* steps, int64_t count, int64_t* rows);

// rows[i] = the row given out at step first + i, where `slots` hold what shuffle_held says before step `first`, with the
// empty one in `hole`, and `used` of them in use; all three are brought forward.
void shuffle_run(ShuffleLaw law, int64_t first, int64_t count, int64_t* slots, int64_t* hole, int64_t* used, int64_t* rows);

// The values of a column of so many rows, `bytes` a row, without gaps.
template <typename Byte>
struct ColumnBytes {
  Byte* data;
  size_t bytes;
  int64_t rows;
};
using InColumns = std::vector<ColumnBytes<const uint8_t>>;
using OutColumns = std::vector<ColumnBytes<uint8_t>>;

// Packed rows: the values of all columns of a row one after another, `row_bytes` together. Copies rows `first` to
// `first + count - 1` of the columns to or from them; fastest if columns of four or eight bytes stand side by side.
void pack_columns(const InColumns& columns, int64_t first, int64_t count, size_t row_bytes, uint8_t* rows);
void unpack_columns(const uint8_t* rows, size_t row_bytes, int64_t first, int64_t count, const OutColumns& columns);

// Row i of the columns = packed row numbers[i]. Several threads copy if there is much to copy.
void gather_columns(const uint8_t* rows, size_t row_bytes, const int64_t* numbers, int64_t count, const OutColumns& columns);

// Moves rows between columns and slots, which hold packed rows, for `count` steps while rows come in: row i of `incoming`
// fills the hole, slot draws[i] goes to row i of `out` and becomes the hole. Returns the last hole. Several threads copy if
// there is much to copy.
int64_t shuffle_exchange(uint8_t* slots, size_t row_bytes, int64_t hole, const InColumns& incoming, const int64_t* draws,
                         int64_t count, const OutColumns& out);

// The same once no rows come in: the last used slot fills the hole. Slots in use shrink by `count`.
void shuffle_drain(uint8_t* slots, size_t row_bytes, int64_t used, const int64_t* draws, int64_t count,
                   const OutColumns& out);

// out[i] = the image of indices[i] under the key's permutation of [0, size).
void permute(uint64_t key, int64_t size, const int64_t* indices, int64_t count, int64_t* out);

// Rows of several branches in one sequence. Of every prefix each branch has its share, but for rounding, at the borders of
// blocks; within a block the order is drawn. shares[m]: what part of the rows that the branches around m share, in a tree
// that halves their numbers, fall to those before m, in units of 2^-30.
struct MixLaw {
  uint64_t key;
  const int64_t* shares;
  int64_t branches;
};

// One block: of each place the branch, and the row of that branch.
class MixBlock {
 public:
  static constexpr int64_t kRows = 256;
  explicit MixBlock(const MixLaw& law);
  void enter(int64_t number);
  int64_t branch(int64_t place) const { return branches_[place]; }
  int64_t row(int64_t place) const { return rows_[place]; }
  const std::vector<int64_t>& before() const { return before_; }  // how many rows of each branch came before the block

 private:
  MixLaw law_;
  std::vector<int64_t> before_;
  int64_t number_ = -1;
  int64_t branches_[kRows], rows_[kRows];
};

// The branch and the row of it at each of these places.
void mix_rows(const MixLaw& law, const int64_t* indices, int64_t count, int64_t* branches, int64_t* rows);

// How many of the first n rows are each branch's.
void mix_counts(const MixLaw& law, int64_t n, int64_t* counts);

// bins[i]: the first bin that has room for sizes[i] after those before it; returns how many bins are used.
int64_t first_fit(const int64_t* sizes, int64_t count, int64_t room, int64_t* bins);

// A part of a sequence in a row: `tokens` values from `start` on, and a separator if `whole` is one more, at a cell.
struct PackPiece {
  int64_t start, tokens, whole, cell, segment, document;
};

struct PackedRows {
  uint8_t* tokens;
  int32_t* segments;
  int32_t* positions;
  int64_t* documents;  // may be null
};

// Fills all cells: with pieces, which are in order, and between them with zeros (and -1 for documents).
void pack_rows(const uint8_t* values, size_t bytes, const PackPiece* pieces, int64_t count, const uint8_t* separator,
               int64_t cells, const PackedRows& out);

// Draws that belong to rows: number k of a row is a function of (key, the row's id, k). Draws `first` to `first + count`
// of each row are made, row after row; ids are (path key, ordinal) pairs.
struct RowDraws {
  uint64_t key;
  const uint64_t* ids;
  int64_t rows;
  uint64_t first;
  int64_t count;
};

// The numbers themselves, uniform over 64 bits; each of the following spends one of them on each result.
void random_words(const RowDraws& draws, uint64_t* out);

// Uniform in [0, 1), multiples of 2^-53.
void random_uniform(const RowDraws& draws, double* out);

// Standard normal, by the inverse of the distribution function.
void random_normal(const RowDraws& draws, double* out);

// low + uniform in [0, span), modulo 2^64; span 0 stands for 2^64. One pair for all, or one for `each` result.
void random_integers(const RowDraws& draws, const uint64_t* low, const uint64_t* span, bool each, uint64_t* out);

// A permutation of [0, count) for each row.
void random_permutation(const RowDraws& draws, int64_t* out);

// Ragged rows: row i is values[offsets[i] .. offsets[i + 1]]. Copies the rows with these numbers, one after another.
void ragged_take(const uint8_t* values, size_t value_bytes, const int64_t* offsets, const int64_t* indices, int64_t count,
                 uint8_t* out);

// Rows of several ragged arrays of bytes: `rows[i]` of part `which[i]`, one after another. Offsets gets count + 1.
struct TextPart {
  const uint8_t* values;
  const int64_t* offsets;
};
void text_pick(const TextPart* parts, const int64_t* which, const int64_t* rows, int64_t count, Growing<uint8_t>& out,
               int64_t* offsets);

// Ranges of bytes out of several parts, one behind the other: the i-th lies in part which[i], from bounds[2i] to before
// bounds[2i + 1].
void bytes_pick(const uint8_t* const* parts, const int64_t* which, const int64_t* bounds, int64_t count, uint8_t* out);

// Copies row i to the front of out[i * length ..]; the rest of out is left as it is.
void ragged_pad(const uint8_t* values, size_t value_bytes, const int64_t* offsets, int64_t rows, int64_t length,
                uint8_t* out);

// The CRC-32C of these bytes: as fast as this processor can, by the instruction that most have, and always by tables.
uint32_t crc32c(const uint8_t* data, size_t size);
uint32_t crc32c_by_instruction(const uint8_t* data, size_t size);
uint32_t crc32c_portable(const uint8_t* data, size_t size);
bool crc32c_in_hardware();

// As TFRecord files store it.
uint32_t masked_crc32c(const uint8_t* data, size_t size);

// What stopped the reading of records at byte `consumed`: nothing but a limit or the end of the bytes, or a checksum.
enum class Problem : int { kNone = 0, kLength = 1, kData = 2 };
struct Scan {
  size_t consumed;
  Problem problem;
};

// Appends where each whole record from byte `start` on begins, for at most `max_rows` records with `max_bytes` of data
// (the first may be larger). Lengths are always checked, data if `verify`.
Scan scan_records(const uint8_t* data, size_t size, size_t start, int64_t max_rows, int64_t max_bytes, bool verify,
                  Growing<int64_t>& starts);

// The same, with the data of the records one after another, and where each begins, and the last one ends.
Scan unframe(const uint8_t* data, size_t size, size_t start, int64_t max_rows, int64_t max_bytes, bool verify,
             Growing<uint8_t>& values, Growing<int64_t>& offsets);

// Where records lie, each in one of several parts: its number, where it begins and where it ends are found by strides.
struct RecordRanges {
  const uint8_t* const* parts;
  const int64_t* which;  // null: all in the first part
  int64_t which_stride;
  const int64_t* bounds;
  int64_t bounds_stride;

  int64_t begin(int64_t i) const { return bounds[i * bounds_stride]; }
  int64_t end(int64_t i) const { return bounds[i * bounds_stride + 1]; }
  const uint8_t* record(int64_t i) const { return parts[which ? which[i * which_stride] : 0] + begin(i); }
  RecordRanges from(int64_t i) const {
    return {parts, which ? which + i * which_stride : nullptr, which_stride, bounds + i * bounds_stride, bounds_stride};
  }
};

// Whether all records that lie there are good; their lengths may have been `seen` to be.
bool verify_at(const RecordRanges& ranges, int64_t count, bool lengths_seen);

// The same, with their data one after another, and where each begins, and the last one ends.
bool copy_verified(const RecordRanges& ranges, int64_t count, bool lengths_seen, Growing<uint8_t>& values,
                   Growing<int64_t>& offsets);

// The first position from `start` on where a record seems to begin, -1 if there is none: its length's checksum is right,
// and that of its data, if they are all here; else it ends before byte `end`. (A record of eight bytes of data holds what
// looks like a header; only a claim to reach beyond the file's end gives it away.)
int64_t resync(const uint8_t* data, size_t size, size_t start, uint64_t end);

// What framing adds to a record, and how much of it comes before the data.
constexpr size_t kFraming = 16, kHeader = 12;

// Rows as records, one after another.
void frame(const uint8_t* values, const int64_t* offsets, int64_t rows, uint8_t* out);

// Has the allocator keep some freed memory for the next arrays; whether it can.
bool keep_heap();

// Gives freed memory back to the operating system where the allocator can.
void release_memory();

// Copies the rows with these numbers to out, one after another, by several threads where there is much to copy.
void gather(const uint8_t* rows, size_t row_bytes, const int64_t* indices, int64_t count, uint8_t* out);

// Copies rows, `row_step` bytes apart, whose values lie in memory in any order: axes of `sizes`, `steps` bytes apart. Row
// indices[i] becomes row places[i] of out, in C order; without either, row i. No two places may be the same.
void copy_strided(const uint8_t* rows, int64_t row_step, const int64_t* indices, int64_t count, const int64_t* sizes,
                  const int64_t* steps, int axes, int64_t item_bytes, const int64_t* places, uint8_t* out);

// CSV. What a file looks like: which field goes to which column (slots; -1: none, -2: one too many), whether more fields
// than slots are too many, and of each column what it holds and whether it may be empty.
enum class CsvKind : int { kInt32 = 0, kInt64 = 1, kFloat32 = 2, kFloat64 = 3, kText = 4 };
struct CsvLayout {
  uint8_t delimiter;
  int quote;  // -1: none
  std::string na;
  std::vector<int> slots;
  bool exact;
  size_t columns;
  std::vector<CsvKind> kinds;
  std::vector<bool> required;
};

enum class CsvError : int64_t {
  kQuoteInside = 1,
  kUnescaped = 2,
  kUnclosed = 3,
  kTooFew = 4,
  kTooMany = 5,
  kMissing = 6,
  kNoNumber = 7
};
struct CsvProblem {
  int64_t row;
  CsvError error;
  int64_t field;  // of the record up to kTooMany, of the columns from kMissing on
};
struct CsvField {
  size_t start = 0, stop = 0;
};

// Where each record begins, and the last one ends; the numbers of those that were cut into fields, and their fields, so
// many columns each; what is wrong with the others.
struct CsvRecords {
  std::vector<int64_t> starts;
  std::vector<int64_t> good;
  std::vector<CsvField> fields;
  std::vector<CsvProblem> problems;
};
union CsvNumber {
  int64_t integer;
  double real;
};

// Cuts the bytes from `start` on into at most `max_rows` records; a record that is not whole waits, unless `final`.
void csv_split(const uint8_t* data, size_t size, size_t start, int64_t max_rows, bool final, const CsvLayout& layout,
               CsvRecords& out);

// A column of numbers; the fallback stands where a field is empty or wrong.
void csv_convert(const uint8_t* data, const CsvLayout& layout, size_t column, CsvNumber fallback, const CsvRecords& records,
                 std::vector<CsvProblem>& problems, void* out);

// A column of text: how many bytes it takes at most, and the column itself. Returns how many bytes it took.
size_t csv_text_bytes(const CsvLayout& layout, size_t column, const std::string& fallback, const CsvRecords& records);
size_t csv_text(const uint8_t* data, const CsvLayout& layout, size_t column, const std::string& fallback,
                const CsvRecords& records, std::vector<CsvProblem>& problems, int64_t* offsets, uint8_t* out);
// Hashes. Fingerprint64 of FarmHash, SipHash-2-4 under a key of two words, and how two hashes are made into one.
uint64_t fingerprint64(const uint8_t* s, size_t size);
uint64_t siphash(const uint8_t* s, size_t size, uint64_t low, uint64_t high);
uint64_t combine(uint64_t one, uint64_t other);

// The hash of each row, and of the decimal text of each number: Fingerprint64, or with a salt of two words SipHash.
void hash_text(const uint8_t* values, const int64_t* offsets, int64_t rows, const uint64_t* salt, uint64_t* out);
void hash_numbers(const int64_t* numbers, int64_t count, const uint64_t* salt, uint64_t* out);

// The rest of a division by the same number again and again, exact, without a division.
class Modulo {
 public:
  explicit Modulo(uint64_t divisor);
  uint64_t operator()(uint64_t number) const {
    const Wide low = inverse_ * number;
    const Wide carried = (Wide(uint64_t(low)) * divisor_) >> 64;
    return uint64_t((Wide(uint64_t(low >> 64)) * divisor_ + carried) >> 64);
  }

 private:
  __extension__ typedef unsigned __int128 Wide;
  uint64_t divisor_;
  Wide inverse_;
};

// out[i] = first + hashes[i] modulo buckets.
void hash_buckets(const uint64_t* hashes, int64_t count, uint64_t buckets, int64_t first, int64_t* out);

// made[i] = combine(made[i], hashes[i])
void cross_rows(uint64_t* made, const uint64_t* hashes, int64_t count);

// Every combination of one value of each part, for each row, beginning with `key`; the last part turns fastest.
struct CrossPart {
  const uint64_t* hashes;
  const int64_t* offsets;
};
void cross_product(const std::vector<CrossPart>& parts, int64_t rows, uint64_t key, uint64_t buckets, Growing<int64_t>& out,
                   int64_t* offsets);

// Which row of a list of texts another text is; of two that are the same, the first.
class TextTable {
 public:
  TextTable(const uint8_t* values, const int64_t* offsets, int64_t rows);
  // Rows that are not in the list get -1; `hashes` are their fingerprints.
  void find(const uint8_t* values, const int64_t* offsets, int64_t rows, const uint64_t* hashes, int64_t* out) const;
  // start + the place of each row in the list; for others `unknown`, or one of `buckets` from there on by the fingerprint.
  void ids(const uint8_t* values, const int64_t* offsets, int64_t rows, int64_t start, int64_t unknown, uint64_t buckets,
           int64_t* out) const;

 private:
  struct Slot {
    uint64_t hash;
    int64_t row;
  };
  size_t place(uint64_t hash, const uint8_t* text, size_t size) const;
  std::vector<uint8_t> values_;
  std::vector<int64_t> offsets_;
  std::vector<Slot> slots_;
};

// How often each of some texts came, in the order in which they came first.
class TextCounter {
 public:
  TextCounter();
  // Each row once, or as often as `counts` says, unless it is null; several threads take turns.
  void add(const uint8_t* values, const int64_t* offsets, int64_t rows, const int64_t* counts);
  size_t size() const { return offsets_.size() - 1; }
  const std::vector<uint8_t>& values() const { return values_; }
  const std::vector<int64_t>& offsets() const { return offsets_; }
  std::vector<int64_t> counts() const;
  // The texts that came `least` times or more, by number, the most frequent first and of equals the greater; no more than
  // `limit` of them.
  std::vector<int64_t> most_frequent(size_t limit, int64_t least) const;

 private:
  // A text: its bytes and their number where it is short, else its hash; and where it is looked for.
  struct Key {
    uint64_t low, high, place;
  };
  struct Slot {
    uint64_t low, high;  // a key's, which is never 0
    int64_t count, row;
    bool empty() const { return high == 0; }
  };
  static Key key_of(const uint8_t* text, size_t size, const uint8_t* limit);
  void grow();
  void count(const Key& key, const uint8_t* text, size_t size, int64_t times);
  std::vector<uint8_t> values_;
  std::vector<int64_t> offsets_;
  std::vector<Slot> slots_;
  std::mutex turn_;
};

// out[i] = how many bounds are not greater than values[i]; all of them for NaN. Bounds rise.
void bucketize(const float* values, int64_t count, const float* bounds, int64_t bounds_count, int64_t* out);

// Row i has the ids[offsets[i] .. offsets[i + 1]]; those outside of [0, depth) do not count. Rows of `out` lie `width`
// apart. Adds to each row how often it has each id, or the weights of these (which may be null).
void add_counts(const int64_t* ids, const int64_t* offsets, int64_t rows, const float* weights, int64_t depth, float* out,
                int64_t width);

// The same with the rows of a table of depth x dimension put together, into rows of zeros.
enum class Combiner : int { kSum = 0, kMean = 1, kSqrtn = 2 };
void add_embeddings(const int64_t* ids, const int64_t* offsets, int64_t rows, const float* weights, const float* table,
                    int64_t depth, int64_t dimension, Combiner combiner, float* out, int64_t width);

// Nanoseconds that this thread could have run, and had no processor, since it began; 0 where the system does not tell.
int64_t run_delay();

// Has the system kill this process when the thread that started it is gone, where the system can.
void die_with_parent();

}  // namespace headrace
