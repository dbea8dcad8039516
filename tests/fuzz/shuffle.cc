// Rows of columns of any widths, packed, exchanged, drained and unpacked: as a buffer of rows one by one has them.
#include <cstdint>
#include <vector>

#include "../../src/native/kernels.h"
#include "../../src/native/team.h"
#include "check.h"

using namespace headrace;

namespace {

using Bytes = std::vector<uint8_t>;

struct Reader {
  const uint8_t* at;
  const uint8_t* end;

  uint8_t byte() { return at < end ? *at++ : 0; }
};

// Columns of this many rows, each in its own memory, so that an overrun is detected.
struct Table {
  std::vector<Bytes> columns;
  std::vector<size_t> widths;
  size_t row_bytes = 0;
  int64_t rows;

  Table(const std::vector<size_t>& widths, int64_t rows, uint8_t seed) : widths(widths), rows(rows) {
    for (const size_t width : widths) {
      Bytes values(width * size_t(rows));
      for (size_t i = 0; i < values.size(); ++i) values[i] = uint8_t(seed + i * 31 + columns.size() * 7);
      columns.push_back(values);
      row_bytes += width;
    }
  }

  template <typename Byte>
  std::vector<ColumnBytes<Byte>> bytes() {
    std::vector<ColumnBytes<Byte>> made;
    for (size_t i = 0; i < widths.size(); ++i) made.push_back({columns[i].data(), widths[i], rows});
    return made;
  }

  Bytes row(int64_t number) const {
    Bytes made;
    for (size_t i = 0; i < widths.size(); ++i) {
      const auto from = columns[i].begin() + int64_t(widths[i]) * number;
      made.insert(made.end(), from, from + int64_t(widths[i]));
    }
    return made;
  }
};

Bytes row_of(const Bytes& packed, size_t row_bytes, int64_t number) {
  const auto from = packed.begin() + int64_t(row_bytes) * number;
  return Bytes(from, from + int64_t(row_bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader input{data, data + size};
  set_team(input.byte() % 8 ? 1 : 3);
  constexpr size_t kWidths[] = {0, 1, 2, 3, 4, 4, 8, 8, 16, 24};
  std::vector<size_t> widths(1 + input.byte() % 12);
  for (size_t& width : widths) width = kWidths[input.byte() % 10];
  const int64_t capacity = 1 + input.byte(), count = 1 + input.byte() * (input.byte() % 16 ? 1 : 100);
  Table held(widths, capacity, 1), incoming(widths, count, 2), out(widths, count, 3);
  const size_t row_bytes = held.row_bytes;
  Bytes slots(row_bytes * size_t(capacity));
  pack_columns(held.bytes<const uint8_t>(), 0, capacity, row_bytes, slots.data());
  std::vector<Bytes> model;
  for (int64_t i = 0; i < capacity; ++i) {
    model.push_back(held.row(i));
    CHECK(row_of(slots, row_bytes, i) == model.back());
  }

  int64_t hole = input.byte() % capacity;
  std::vector<int64_t> draws(static_cast<size_t>(count));
  for (int64_t& draw : draws) draw = (input.byte() + (&draw - draws.data()) * 7) % capacity;
  const int64_t last =
      shuffle_exchange(slots.data(), row_bytes, hole, incoming.bytes<const uint8_t>(), draws.data(), count, out.bytes<uint8_t>());
  CHECK(last == draws.back());
  for (int64_t i = 0; i < count; ++i) {
    model[size_t(hole)] = incoming.row(i);
    hole = draws[size_t(i)];
    CHECK(out.row(i) == model[size_t(hole)]);
  }

  const int64_t some = 1 + input.byte() % capacity;
  draws.resize(size_t(some));
  for (int64_t i = 0; i < some; ++i) draws[size_t(i)] = (input.byte() + i * 5) % (capacity - i);
  Table drained(widths, some, 4);
  shuffle_drain(slots.data(), row_bytes, capacity, draws.data(), some, drained.bytes<uint8_t>());
  for (int64_t i = 0; i < some; ++i) {
    CHECK(drained.row(i) == model[size_t(draws[size_t(i)])]);
    model[size_t(draws[size_t(i)])] = model.back();
    model.pop_back();
  }

  Table left(widths, int64_t(model.size()), 5);
  unpack_columns(slots.data(), row_bytes, 0, left.rows, left.bytes<uint8_t>());
  for (int64_t i = 0; i < left.rows; ++i) CHECK(left.row(i) == model[size_t(i)]);
  return 0;
}
