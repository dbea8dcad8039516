// What each kernel offers; bindings.cc alone turns these into Python functions. Callers check sizes and ranges.
#pragma once

#include <cstddef>
#include <cstdint>

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

// draws[i] = the slot given out at step first + i.
void shuffle_draws(ShuffleLaw law, int64_t first, int64_t count, int64_t* draws);

// Which row each slot holds before step t, -1 for the slot that is empty; returns how many slots are in use.
int64_t shuffle_held(ShuffleLaw law, int64_t t, int64_t* rows);

// rows[i] = the row given out at steps[i].
void shuffle_rows_at(ShuffleLaw law, const int64_t* steps, int64_t count, int64_t* rows);

// rows[i] = the row given out at step first + i, where `slots` hold what shuffle_held says before step `first`, with the
// empty one in `hole`, and `used` of them in use; all three are brought forward.
void shuffle_run(ShuffleLaw law, int64_t first, int64_t count, int64_t* slots, int64_t* hole, int64_t* used, int64_t* rows);

// The moving of rows for `count` steps while rows come in: incoming[i] fills the hole, slot draws[i] goes to out[i].
// Returns the new hole.
int64_t shuffle_exchange(uint8_t* slots, size_t row_bytes, int64_t hole, const uint8_t* incoming, const int64_t* draws,
                         int64_t count, uint8_t* out);

// The same once no rows come in: the last used slot fills the hole. Slots in use shrink by `count`.
void shuffle_drain(uint8_t* slots, size_t row_bytes, int64_t used, const int64_t* draws, int64_t count, uint8_t* out);

// out[i] = the image of indices[i] under the key's permutation of [0, size).
void permute(uint64_t key, int64_t size, const int64_t* indices, int64_t count, int64_t* out);

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

// Copies row i to the front of out[i * length ..]; the rest of out is left as it is.
void ragged_pad(const uint8_t* values, size_t value_bytes, const int64_t* offsets, int64_t rows, int64_t length,
                uint8_t* out);

// Gives freed memory back to the operating system where the allocator can.
void release_memory();

// Has the system kill this process when the thread that started it is gone, where the system can.
void die_with_parent();

}  // namespace headrace
