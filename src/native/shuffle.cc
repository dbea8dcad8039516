#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels.h"
#include "philox.h"
#include "row_copy.h"
#include "team.h"

namespace headrace {

int64_t tail_start(const ShuffleLaw& law) {
  if (law.total < 0) return INT64_MAX;
  return std::max<int64_t>(0, law.total - law.capacity + 1);
}

namespace {

int64_t bound_at(const ShuffleLaw& law, int64_t t) { return t < tail_start(law) ? law.capacity : law.total - t; }

// Slots before step t <= tail_start: slot s holds row capacity + u, with u <= t - 2 the last step that emptied it, or
// row s if none did. Walking back from t finds every slot after about capacity * ln(capacity) steps.
void held_while_full(const ShuffleLaw& law, int64_t t, int64_t* rows) {
  Draws draw(law.key);
  std::fill(rows, rows + law.capacity, int64_t(-2));
  int64_t missing = law.capacity;
  rows[t > 0 ? draw(t - 1, law.capacity) : law.capacity - 1] = -1;
  --missing;
  for (int64_t u = t - 2; u >= 0 && missing > 0; --u) {
    int64_t& row = rows[draw(u, law.capacity)];
    if (row == -2) {
      row = law.capacity + u;
      --missing;
    }
  }
  for (int64_t s = 0; missing > 0 && s < law.capacity; ++s) {
    if (rows[s] == -2) rows[s] = s;
  }
}

// Slots at the start of the tail, closed: all rows that are left, none empty.
int64_t held_at_tail(const ShuffleLaw& law, int64_t* rows) {
  if (law.total < law.capacity) {
    for (int64_t s = 0; s < law.total; ++s) rows[s] = s;
    return law.total;
  }
  held_while_full(law, tail_start(law), rows);
  int64_t* hole = std::find(rows, rows + law.capacity, int64_t(-1));
  *hole = rows[law.capacity - 1];
  return law.capacity - 1;
}

}  // namespace

int64_t slots_needed(const ShuffleLaw& law) {
  return law.total < 0 ? law.capacity : std::min(law.capacity, law.total);
}

void shuffle_draws(ShuffleLaw law, int64_t first, int64_t count, int64_t* draws) {
  Draws draw(law.key);
  for (int64_t i = 0; i < count; ++i) draws[i] = draw(first + i, bound_at(law, first + i));
}

int64_t shuffle_held(ShuffleLaw law, int64_t t, int64_t* rows) {
  const int64_t tail = tail_start(law);
  if (t < tail) {
    held_while_full(law, t, rows);
    return law.capacity;
  }
  Draws draw(law.key);
  int64_t used = held_at_tail(law, rows);
  for (int64_t u = tail; u < t; ++u) rows[draw(u, law.total - u)] = rows[--used];
  return used;
}

void shuffle_rows_at(ShuffleLaw law, const int64_t* steps, int64_t count, int64_t* rows) {
  // In increasing order, forward from step to step if they are close, as those of a slice are; over a long gap it is
  // cheaper to compute the slots again.
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t(0));
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return steps[a] < steps[b]; });
  const int64_t tail = tail_start(law);
  const int64_t far = 16 * std::min<int64_t>(slots_needed(law), INT64_MAX / 16);
  std::vector<int64_t> slots(static_cast<size_t>(slots_needed(law)));
  int64_t t = -1, used = 0, hole = 0, given = 0;
  for (const int64_t i : order) {
    const int64_t step = steps[i];
    if (t < 0 || step - t > far) {
      used = shuffle_held(law, step, slots.data());
      if (step < tail) hole = int64_t(std::find(slots.begin(), slots.end(), int64_t(-1)) - slots.begin());
      t = step;
    }
    for (; t <= step; ++t) shuffle_run(law, t, 1, slots.data(), &hole, &used, &given);
    rows[i] = given;
  }
}

void shuffle_run(ShuffleLaw law, int64_t first, int64_t count, int64_t* slots, int64_t* hole, int64_t* used, int64_t* rows) {
  Draws draw(law.key);
  const int64_t tail = tail_start(law);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t t = first + i;
    if (t < tail) {
      slots[*hole] = law.capacity - 1 + t;
      *hole = draw(t, law.capacity);
      rows[i] = slots[*hole];
      continue;
    }
    if (t == tail && t > 0 && *used == law.capacity) {  // no more rows come in: close the slot
      slots[*hole] = slots[law.capacity - 1];
      *used = law.capacity - 1;
    }
    int64_t& slot = slots[draw(t, law.total - t)];
    rows[i] = slot;
    slot = slots[--*used];
  }
}

namespace {

// If it pays off to plan first which row goes where, and copy on several threads: planning takes as long as copying
// some hundred bytes per row.
bool is_much(int64_t count, size_t row_bytes) {
  return team() > 1 && row_bytes >= 512 && size_t(count) * row_bytes >= (size_t(1) << 20);
}

using Sources = std::unordered_map<int64_t, int64_t>;

void copy_all(int64_t count, size_t row_bytes, const std::function<void(int64_t)>& copy) {
  in_pieces(count, grain_of(count, count * int64_t(row_bytes)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) copy(i);
  });
}

// Fill each slot with its row; none of these rows may be in one of the slots.
void fill_slots(uint8_t* slots, size_t row_bytes, const uint8_t* rows, const Sources& source) {
  const std::vector<std::pair<int64_t, int64_t>> pairs(source.begin(), source.end());
  copy_all(int64_t(pairs.size()), row_bytes, [&](int64_t i) {
    const auto& [slot, row] = pairs[size_t(i)];
    std::memcpy(slots + size_t(slot) * row_bytes, rows + size_t(row) * row_bytes, row_bytes);
  });
}

// The steps as one round of copies. A slot is given out once, because later draws of it find an incoming row: the
// thread that copies it also refills it. Only the first hole is filled without that.
int64_t exchange_at_once(uint8_t* slots, size_t row_bytes, int64_t hole, const uint8_t* incoming, const int64_t* draws,
                         int64_t count, uint8_t* out) {
  Sources latest;  // for refilled slots, the last incoming row
  latest.reserve(size_t(count));
  const int64_t first = hole;
  std::vector<int64_t> given(static_cast<size_t>(count)), filled(static_cast<size_t>(count), -1);
  constexpr int64_t kIncoming = int64_t(1) << 62;  // offset added to the number of an incoming row
  for (int64_t i = 0; i < count; ++i) {
    latest[hole] = i;
    hole = draws[i];
    const auto found = latest.find(hole);
    given[size_t(i)] = found == latest.end() ? hole : kIncoming + found->second;
  }
  latest.erase(hole);
  for (int64_t i = 0; i < count; ++i) {
    if (given[size_t(i)] >= kIncoming) continue;
    const auto found = latest.find(given[size_t(i)]);
    if (found != latest.end()) filled[size_t(i)] = found->second;
  }
  const auto row = [&](const uint8_t* rows, int64_t number) { return rows + size_t(number) * row_bytes; };
  copy_all(count, 2 * row_bytes, [&](int64_t i) {
    const int64_t from = given[size_t(i)], next = filled[size_t(i)];
    uint8_t* const to = out + size_t(i) * row_bytes;
    if (from >= kIncoming) {
      std::memcpy(to, row(incoming, from - kIncoming), row_bytes);
      return;
    }
    uint8_t* const slot = slots + size_t(from) * row_bytes;
    std::memcpy(to, slot, row_bytes);
    if (next >= 0) std::memcpy(slot, row(incoming, next), row_bytes);
  });
  const auto left = latest.find(first);
  if (left != latest.end()) std::memcpy(slots + size_t(first) * row_bytes, row(incoming, left->second), row_bytes);
  return hole;
}

// The same once no rows come in. Rows move from slots that are no longer in use afterwards into ones that are.
void drain_at_once(uint8_t* slots, size_t row_bytes, int64_t used, const int64_t* draws, int64_t count, uint8_t* out) {
  Sources moved;  // for refilled slots, the slot that the row comes from
  moved.reserve(size_t(count));
  const auto row_of = [&](int64_t slot) {
    const auto found = moved.find(slot);
    return found == moved.end() ? slot : found->second;
  };
  std::vector<int64_t> given(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    given[size_t(i)] = row_of(draws[i]);
    const int64_t last = row_of(--used);
    moved[draws[i]] = last;
  }
  copy_all(count, row_bytes, [&](int64_t i) {
    std::memcpy(out + size_t(i) * row_bytes, slots + size_t(given[size_t(i)]) * row_bytes, row_bytes);
  });
  Sources stay;
  for (const auto& [slot, row] : moved) {
    if (slot < used) stay[slot] = row;
  }
  fill_slots(slots, row_bytes, slots, stay);
}

// Prefetch a row of a few cache lines some steps before it is moved. Inlined, because GCC deletes calls of a function
// that only prefetches.
[[gnu::always_inline]] inline void prefetch_slot(const uint8_t* slots, size_t row_bytes, const int64_t* draws, int64_t step,
                                                 int64_t count) {
  constexpr int64_t kStepsAhead = 8;
  constexpr size_t kLine = 64, kFewLines = 8;
  if (row_bytes < kLine || row_bytes > kFewLines * kLine || step + kStepsAhead >= count) return;
  const uint8_t* const row = slots + size_t(draws[step + kStepsAhead]) * row_bytes;
  for (size_t at = 0; at < row_bytes; at += kLine) __builtin_prefetch(row + at, 1);
}

int64_t exchange_rows(uint8_t* slots, size_t row_bytes, int64_t hole, const uint8_t* incoming, const int64_t* draws,
                      int64_t count, uint8_t* out) {
  if (is_much(count, row_bytes)) return exchange_at_once(slots, row_bytes, hole, incoming, draws, count, out);
  return with_bytes(row_bytes, [=](auto bytes) {
    int64_t empty = hole;
    for (int64_t i = 0; i < count; ++i) {
      prefetch_slot(slots, bytes, draws, i, count);
      std::memcpy(slots + size_t(empty) * bytes, incoming + size_t(i) * bytes, bytes);
      empty = draws[i];
      std::memcpy(out + size_t(i) * bytes, slots + size_t(empty) * bytes, bytes);
    }
    return empty;
  });
}

void drain_rows(uint8_t* slots, size_t row_bytes, int64_t used, const int64_t* draws, int64_t count, uint8_t* out) {
  if (is_much(count, row_bytes)) return drain_at_once(slots, row_bytes, used, draws, count, out);
  with_bytes(row_bytes, [=](auto bytes) {
    const uint8_t* last = slots + size_t(used) * bytes;
    for (int64_t i = 0; i < count; ++i) {
      prefetch_slot(slots, bytes, draws, i, count);
      uint8_t* slot = slots + size_t(draws[i]) * bytes;
      std::memcpy(out + size_t(i) * bytes, slot, bytes);
      last -= bytes;
      if (slot != last) std::memcpy(slot, last, bytes);
    }
  });
}

// Rows of one round of packing, moving and unpacking: few enough to stay in the cache, unless several threads share
// them.
constexpr int64_t kNearRows = 64, kSharedRows = 1 << 14;

int64_t round_rows(int64_t count) { return std::min(count, team() > 1 ? kSharedRows : kNearRows); }

}  // namespace

int64_t shuffle_exchange(uint8_t* slots, size_t row_bytes, int64_t hole, const InColumns& incoming, const int64_t* draws,
                         int64_t count, const OutColumns& out) {
  if (row_bytes == 0) return count ? draws[count - 1] : hole;
  if (incoming.size() == 1) {
    return exchange_rows(slots, row_bytes, hole, incoming[0].data, draws, count, out[0].data);
  }
  const int64_t most = round_rows(count);
  Growing<uint8_t> packed;
  uint8_t* const fresh = packed.extend(2 * size_t(most) * row_bytes);
  uint8_t* const given = fresh + size_t(most) * row_bytes;
  for (int64_t first = 0; first < count; first += most) {
    const int64_t rows = std::min(most, count - first);
    pack_columns(incoming, first, rows, row_bytes, fresh);
    hole = exchange_rows(slots, row_bytes, hole, fresh, draws + first, rows, given);
    unpack_columns(given, row_bytes, first, rows, out);
  }
  return hole;
}

void shuffle_drain(uint8_t* slots, size_t row_bytes, int64_t used, const int64_t* draws, int64_t count,
                   const OutColumns& out) {
  if (row_bytes == 0) return;
  if (out.size() == 1) return drain_rows(slots, row_bytes, used, draws, count, out[0].data);
  const int64_t most = round_rows(count);
  Growing<uint8_t> packed;
  uint8_t* const given = packed.extend(size_t(most) * row_bytes);
  for (int64_t first = 0; first < count; first += most) {
    const int64_t rows = std::min(most, count - first);
    drain_rows(slots, row_bytes, used - first, draws + first, rows, given);
    unpack_columns(given, row_bytes, first, rows, out);
  }
}

}  // namespace headrace
