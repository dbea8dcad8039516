// The kernels' interfaces; only the bindings turn these into Python functions. Callers check sizes and ranges.
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

// rows[i] = the row given out at step first + i. `slots` are those of shuffle_held before step `first`, with the empty
// one in `hole`, and `used` of them in use; all three are advanced.
void shuffle_run(ShuffleLaw law, int64_t first, int64_t count, int64_t* slots, int64_t* hole, int64_t* used, int64_t* rows);

// The values of a dense column, `bytes` per row.
template <typename Byte>
struct ColumnBytes {
  Byte* data;
  size_t bytes;
  int64_t rows;
};
using InColumns = std::vector<ColumnBytes<const uint8_t>>;
using OutColumns = std::vector<ColumnBytes<uint8_t>>;

// Packed rows: the values of all columns of a row contiguously, `row_bytes` together. Copy rows `first` to `first +
// count - 1` of the columns to or from them; fastest if columns of four or eight bytes are adjacent.
void pack_columns(const InColumns& columns, int64_t first, int64_t count, size_t row_bytes, uint8_t* rows);
void unpack_columns(const uint8_t* rows, size_t row_bytes, int64_t first, int64_t count, const OutColumns& columns);

// Row i of the columns = packed row numbers[i]. Several threads copy if there is much to copy.
void gather_columns(const uint8_t* rows, size_t row_bytes, const int64_t* numbers, int64_t count, const OutColumns& columns);

// Move rows between columns and slots, which hold packed rows, for `count` steps while rows come in: row i of
// `incoming` fills the hole, slot draws[i] goes to row i of `out` and becomes the hole. Returns the last hole. Several
// threads copy if there is much to copy.
int64_t shuffle_exchange(uint8_t* slots, size_t row_bytes, int64_t hole, const InColumns& incoming, const int64_t* draws,
                         int64_t count, const OutColumns& out);

// The same once no rows come in: the last used slot fills the hole. Slots in use shrink by `count`.
void shuffle_drain(uint8_t* slots, size_t row_bytes, int64_t used, const int64_t* draws, int64_t count,
                   const OutColumns& out);

// out[i] = the image of indices[i] under the key's permutation of [0, size).
void permute(uint64_t key, int64_t size, const int64_t* indices, int64_t count, int64_t* out);

// Rows of several branches in one sequence. In every prefix each branch has its share, up to rounding, at block
// boundaries; within a block the order is drawn. shares[m]: in a binary tree over the branch numbers, the part of the
// rows below the node m that belongs to branches before m, in units of 2^-30.
struct MixLaw {
  uint64_t key;
  const int64_t* shares;
  int64_t branches;
};

// One block: for each position the branch, and the row of that branch.
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

// The branch and its row at each of these positions.
void mix_rows(const MixLaw& law, const int64_t* indices, int64_t count, int64_t* branches, int64_t* rows);

// How many of the first n rows belong to each branch.
void mix_counts(const MixLaw& law, int64_t n, int64_t* counts);

// bins[i]: the first bin that has room for sizes[i] after those before it, and holds fewer than `most_items` (0: any
// number); returns how many bins are used.
int64_t first_fit(const int64_t* sizes, int64_t count, int64_t room, int64_t most_items, int64_t* bins);

// As first_fit, the bin with the least room that is enough; of several the first.
int64_t best_fit(const int64_t* sizes, int64_t count, int64_t room, int64_t most_items, int64_t* bins);

// As these, of sizes in several dimensions (count x dims): `best` takes the bin with the least sum of shares left.
int64_t fit_several(const int64_t* sizes, int64_t count, const int64_t* rooms, int64_t dims, int64_t most_items, bool best,
                    int64_t* bins);

// A part of a sequence in a row: `tokens` values from `start` on, and a separator if `whole` is one more, at a cell.
struct PackPiece {
  int64_t start, tokens, whole, cell, segment, document;
};

struct PackedPlaces {
  int32_t* segments;
  int32_t* positions;  // may be null
  int64_t* documents;  // may be null
};

// Fills all cells of a field: with pieces, which are in order, and between them with padding.
void pack_field(const uint8_t* values, size_t bytes, const PackPiece* pieces, int64_t count, const uint8_t* separator,
                const uint8_t* padding, int64_t cells, uint8_t* out);

// Says of all cells to which piece they belong; 0, 0 and -1 of those between pieces.
void pack_places(const PackPiece* pieces, int64_t count, int64_t cells, const PackedPlaces& out);

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

// Rows of several ragged arrays of bytes: `rows[i]` of part `which[i]`, concatenated. Offsets gets count + 1.
struct TextPart {
  const uint8_t* values;
  const int64_t* offsets;
};
void text_pick(const TextPart* parts, const int64_t* which, const int64_t* rows, int64_t count, Growing<uint8_t>& out,
               int64_t* offsets);

// Concatenate ranges of bytes of several parts: the i-th is in part which[i], from bounds[2i] to before bounds[2i + 1].
void bytes_pick(const uint8_t* const* parts, const int64_t* which, const int64_t* bounds, int64_t count, uint8_t* out);

// Writes groups of `size` rows, one after another. All rows of group g get `lengths[g]` values: their own, then the
// filler, of as many bytes as a value, or zeros if it is null.
void ragged_pad(const uint8_t* values, size_t value_bytes, const int64_t* offsets, int64_t groups, int64_t size,
                const int64_t* lengths, const uint8_t* filler, uint8_t* out);

// The CRC-32C of these bytes: by the fastest instruction of this processor, and always by tables.
uint32_t crc32c(const uint8_t* data, size_t size);
uint32_t crc32c_by_instruction(const uint8_t* data, size_t size);
uint32_t crc32c_portable(const uint8_t* data, size_t size);
bool crc32c_in_hardware();

// As TFRecord files store it.
uint32_t masked_crc32c(const uint8_t* data, size_t size);

// Why the reading of records stopped at byte `consumed`: a limit or the end of the bytes, or a checksum.
enum class Problem : int { kNone = 0, kLength = 1, kData = 2 };
struct Scan {
  size_t consumed;
  Problem problem;
};

// Append the offset of each whole record from byte `start` on, for at most `max_rows` records with `max_bytes` of data
// (the first may be larger). Lengths are always checked, data if `verify`.
Scan scan_records(const uint8_t* data, size_t size, size_t start, int64_t max_rows, int64_t max_bytes, bool verify,
                  Growing<int64_t>& starts);

// The same, with the concatenated data of the records, and the offset of each and the end of the last.
Scan unframe(const uint8_t* data, size_t size, size_t start, int64_t max_rows, int64_t max_bytes, bool verify,
             Growing<uint8_t>& values, Growing<int64_t>& offsets);

// References to records in several parts: part number, begin and end, found by strides.
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

// Whether all records at these offsets are good; their lengths may have been `seen` to be.
bool verify_at(const RecordRanges& ranges, int64_t count, bool lengths_seen);

// The same, with their concatenated data, and the offset of each and the end of the last.
bool copy_verified(const RecordRanges& ranges, int64_t count, bool lengths_seen, Growing<uint8_t>& values,
                   Growing<int64_t>& offsets);

// A record, and where its `size` bytes of data are copied to.
struct RecordCopy {
  const uint8_t* record;
  uint8_t* out;
  size_t size;
};

// Copy the data of records; false if one has another size or another checksum than its header and footer say.
bool copy_records(const RecordCopy* copies, int64_t count);

// The first offset from `start` on at which a record seems to begin, -1 if there is none: its length's checksum is
// right, and that of its data, if they are complete; else it ends before byte `end`. (A record of eight bytes of data
// may contain what looks like a header; only a length beyond the file's end reveals it.)
int64_t resync(const uint8_t* data, size_t size, size_t start, uint64_t end);

// What framing adds to a record, and how much of it comes before the data.
constexpr size_t kFraming = 16, kHeader = 12;

// Rows as records, one after another.
void frame(const uint8_t* values, const int64_t* offsets, int64_t rows, uint8_t* out);

// Let the allocator keep some freed memory for the next arrays; return whether it can.
bool keep_heap();

// Return freed memory to the operating system if the allocator can.
void release_memory();

// Copy the rows with these numbers to out, contiguously, on several threads if there is much to copy.
void gather(const uint8_t* rows, size_t row_bytes, const int64_t* indices, int64_t count, uint8_t* out);

// Copy rows, `row_step` bytes apart, with any strides: axes of `sizes`, `steps` bytes apart. Row indices[i] becomes row
// places[i] of out, in C order; without either, row i. No two places may be the same.
void copy_strided(const uint8_t* rows, int64_t row_step, const int64_t* indices, int64_t count, const int64_t* sizes,
                  const int64_t* steps, int axes, int64_t item_bytes, const int64_t* places, uint8_t* out);

// CSV. The layout of a file: which field goes to which column (slots; -1: none, -2: one too many), whether more fields
// than slots are too many, and for each column its type and whether it may be empty.
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

// The offset of each record, and the end of the last one; the numbers of those that were split into fields, and their
// fields, one per column; errors of the others.
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

// Split the bytes from `start` on into at most `max_rows` records; an incomplete record is left, unless `final`.
void csv_split(const uint8_t* data, size_t size, size_t start, int64_t max_rows, bool final, const CsvLayout& layout,
               CsvRecords& out);

// How many line ends there are: LF, CR, or CR LF.
int64_t count_line_ends(const uint8_t* data, size_t size);

// A column of numbers; the fallback replaces empty or invalid fields.
void csv_convert(const uint8_t* data, const CsvLayout& layout, size_t column, CsvNumber fallback, const CsvRecords& records,
                 std::vector<CsvProblem>& problems, void* out);

// A column of text: an upper bound of its bytes, and the column itself. Returns how many bytes it took.
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

// The remainder of repeated divisions by the same number, exact, without a division.
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

// The index of a text in a list of texts; of duplicates, the first.
class TextTable {
 public:
  TextTable(const uint8_t* values, const int64_t* offsets, int64_t rows);
  // Rows that are not in the list get -1; `hashes` are their fingerprints.
  void find(const uint8_t* values, const int64_t* offsets, int64_t rows, const uint64_t* hashes, int64_t* out) const;
  // start + the index of each row in the list; for others `unknown`, or one of `buckets` from there on by the
  // fingerprint.
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

// How often each text came, in the order of first occurrence.
class TextCounter {
 public:
  TextCounter();
  // Add each row once, or as often as `counts` says, unless it is null. Thread-safe, serialized by a mutex.
  void add(const uint8_t* values, const int64_t* offsets, int64_t rows, const int64_t* counts);
  size_t size() const { return offsets_.size() - 1; }
  const std::vector<uint8_t>& values() const { return values_; }
  const std::vector<int64_t>& offsets() const { return offsets_; }
  std::vector<int64_t> counts() const;
  // The texts that came `least` times or more, by number, the most frequent first and of equals the greater; no more than
  // `limit` of them.
  std::vector<int64_t> most_frequent(size_t limit, int64_t least) const;

 private:
  // A text: its bytes and their number if it is short, else its hash; and its slot.
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

// Row i has the ids[offsets[i] .. offsets[i + 1]]; those outside of [0, depth) do not count. Rows of `out` are `width`
// apart. Adds to each row how often it has each id, or the weights of these (which may be null).
void add_counts(const int64_t* ids, const int64_t* offsets, int64_t rows, const float* weights, int64_t depth, float* out,
                int64_t width);

// The same with the rows of a depth x dimension table combined into rows of zeros.
enum class Combiner : int { kSum = 0, kMean = 1, kSqrtn = 2 };
void add_embeddings(const int64_t* ids, const int64_t* offsets, int64_t rows, const float* weights, const float* table,
                    int64_t depth, int64_t dimension, Combiner combiner, float* out, int64_t width);

// Nanoseconds that this thread was runnable but had no CPU, since it began; 0 if the system does not report it.
int64_t run_delay();

// Let the system kill this process when the thread that started it is gone, if the system can.
void die_with_parent();

}  // namespace headrace
