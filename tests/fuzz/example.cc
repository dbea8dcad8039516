// Parsing: any bytes, as one record and as several. What is accepted is written and parsed again.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "../../src/native/example.h"
#include "check.h"

using namespace headrace;

namespace {

Request request(std::string name, Kind kind, bool in_steps, int64_t size, int64_t multiple, bool required, bool skip) {
  return Request{std::move(name), kind, in_steps, size, multiple, required, skip, {}, {}, {}};
}

std::vector<Request> requests(bool required) {
  std::vector<Request> made;
  for (const bool in_steps : {false, true}) {
    made.push_back(request("i", Kind::kInt64, in_steps, -1, 1, false, false));
    made.push_back(request("f", Kind::kFloat, in_steps, -1, 1, false, true));
    made.push_back(request("b", Kind::kBytes, in_steps, -1, 1, false, false));
    made.push_back(request("i2", Kind::kInt64, in_steps, -1, 2, false, true));
  }
  made.push_back(request("i", Kind::kInt64, false, 1, 1, required, true));
  made.push_back(request("f", Kind::kFloat, false, 1, 1, required, true));
  made.push_back(request("b", Kind::kBytes, false, 2, 1, required, false));
  made.push_back(request("i", Kind::kInt64, true, 2, 1, required, false));
  if (!required) {
    made[8].default_ints.push(7);
    made[9].default_floats.push(0.5f);
    made[10].default_bytes = {"none", ""};
  }
  return made;
}

const ExampleParser& parser(int which) {
  static const ExampleParser strict(requests(true)), lenient(requests(false));
  static const ExampleParser loose([] {
    auto all = requests(false);
    std::vector<Request> some;
    for (size_t i = 0; i < 8; ++i) {
      all[i].multiple = 1;
      some.push_back(std::move(all[i]));
    }
    return some;
  }());
  static const ExampleParser singles([] {
    std::vector<Request> some;
    some.push_back(request("i", Kind::kInt64, false, 1, 1, true, true));
    some.push_back(request("f", Kind::kFloat, false, 1, 1, true, true));
    some.push_back(request("b", Kind::kBytes, false, 1, 1, false, false));
    some.back().default_bytes = {"no"};
    return some;
  }());
  static const ExampleParser closed(requests(false), true);
  return which == 0 ? strict : which == 1 ? lenient : which == 2 ? loose : which == 3 ? singles : closed;
}

void check_cuts(const Growing<int64_t>& cuts, size_t count, size_t values) {
  CHECK(cuts.size() == count + 1 && cuts.data()[0] == 0);
  for (size_t i = 0; i < count; ++i) CHECK(cuts.data()[i] <= cuts.data()[i + 1]);
  CHECK(size_t(cuts.data()[count]) == values);
}

void check_columns(const ExampleParser& parser, const std::vector<Column>& columns, size_t rows, size_t size) {
  for (size_t i = 0; i < columns.size(); ++i) {
    const Request& request = parser.requests()[i];
    const Column& column = columns[i];
    const size_t values = column.values(request.kind);
    const size_t defaults = rows * 2;
    if (request.single_number()) {
      CHECK(values == 0 && (column.int_of != nullptr) == (request.kind == Kind::kInt64) && !column.int_of == !!column.float_of);
      continue;
    }
    CHECK(values <= size + defaults && column.bytes.size() <= size + 4 * rows);
    size_t cells = rows;
    if (request.in_steps) {
      cells = size_t(column.steps.data()[rows]);
      CHECK(cells <= size);
      check_cuts(column.steps, rows, cells);
    }
    if (request.size < 0) check_cuts(column.splits, cells, values);
    if (request.size >= 0) CHECK(values == cells * size_t(request.size));
    if (request.kind == Kind::kBytes) check_cuts(column.byte_ends, values, column.bytes.size());
  }
}

template <typename T>
bool equal(const Growing<T>& a, const Growing<T>& b) {
  return a.size() == b.size() && (!a.size() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Piece by piece, each copied to the same place, they are what they are together.
void in_pieces(int which, const uint8_t* data, const std::vector<int64_t>& offsets, const Columns& whole,
               const Refusal& refused) {
  Refusal refusal;
  const int64_t rows = int64_t(offsets.size()) - 1;
  Columns made = parser(which).begin(size_t(rows));
  for (int64_t first = 0; first < rows && refusal.row < 0; first += 2) {
    const int64_t count = std::min<int64_t>(2, rows - first);
    const std::vector<uint8_t> piece(data + offsets[size_t(first)], data + offsets[size_t(first + count)]);
    std::vector<int64_t> cuts;
    for (int64_t i = 0; i <= count; ++i) cuts.push_back(offsets[size_t(first + i)] - offsets[size_t(first)]);
    parser(which).parse_some(piece.data(), cuts.data(), count, first, made, refusal);
  }
  CHECK(refusal.row == refused.row && refusal.what == refused.what);
  if (refusal.row >= 0) return;
  CHECK(equal(made.ints, whole.ints) && equal(made.floats, whole.floats));
  for (size_t i = 0; i < made.columns.size(); ++i) {
    const Column &a = made.columns[i], &b = whole.columns[i];
    CHECK(equal(a.ints, b.ints) && equal(a.floats, b.floats) && equal(a.bytes, b.bytes));
    CHECK(equal(a.byte_ends, b.byte_ends) && equal(a.splits, b.splits) && equal(a.steps, b.steps));
  }
}

// As parts of others, with texts that are only pointed at, rows of singles are what they are together.
void as_parts(const uint8_t* data, const std::vector<int64_t>& offsets, const Columns& whole, const Refusal& refused) {
  Refusal refusal;
  const int64_t rows = int64_t(offsets.size()) - 1;
  Columns made = parser(3).begin(size_t(rows));
  for (int64_t first = 0; first < rows && refusal.row < 0; first += 2) {
    const int64_t count = std::min<int64_t>(2, rows - first);
    const std::vector<uint8_t> piece(data + offsets[size_t(first)], data + offsets[size_t(first + count)]);
    std::vector<int64_t> cuts;
    for (int64_t i = 0; i <= count; ++i) cuts.push_back(offsets[size_t(first + i)] - offsets[size_t(first)]);
    Columns part = parser(3).part_of(made, first, count);
    if (!parser(3).parse_some(piece.data(), cuts.data(), count, 0, part, refusal)) {
      CHECK(first + refusal.row == refused.row && refusal.what == refused.what);
      return;
    }
    const Column &here = part.columns[2], &there = whole.columns[2];
    CHECK(here.bytes.size() == 0 && here.texts.size() == size_t(count));
    for (int64_t i = 0; refused.row < 0 && i < count; ++i) {
      const int64_t begin = there.byte_ends.data()[first + i], size = there.byte_ends.data()[first + i + 1] - begin;
      CHECK(here.byte_ends.data()[i + 1] - here.byte_ends.data()[i] == size);
      CHECK(size == 0 || std::memcmp(here.texts.data()[i], there.bytes.data() + begin, size_t(size)) == 0);
    }
  }
  CHECK(refused.row < 0 && equal(made.ints, whole.ints) && equal(made.floats, whole.floats));
}

bool parse(int which, const uint8_t* data, const std::vector<int64_t>& offsets, Columns* kept) {
  Refusal refusal;
  const size_t rows = offsets.size() - 1;
  Columns made = parser(which).parse(data, offsets.data(), int64_t(rows), refusal);
  in_pieces(which, data, offsets, made, refusal);
  if (which == 3) as_parts(data, offsets, made, refusal);
  if (refusal.row >= 0) {
    CHECK(size_t(refusal.row) < rows && !refusal.what.empty());
    return false;
  }
  check_columns(parser(which), made.columns, rows, size_t(offsets.back()));
  if (kept) *kept = std::move(made);
  return true;
}

// Columns i, f, b of what was parsed, written and parsed once more.
void there_and_back(const std::vector<Column>& columns, size_t rows) {
  const std::vector<Written> written{
      {"i", Kind::kInt64, 0, columns[0].splits.data(), columns[0].ints.data(), nullptr},
      {"f", Kind::kFloat, 0, columns[1].splits.data(), columns[1].floats.data(), nullptr},
      {"b", Kind::kBytes, 0, columns[2].splits.data(), columns[2].bytes.data(), columns[2].byte_ends.data()}};
  Growing<uint8_t> out;
  std::vector<int64_t> offsets(rows + 1);
  encode_examples(written, int64_t(rows), out, offsets.data());
  Columns parsed;
  CHECK(parse(2, out.data(), offsets, &parsed));
  const std::vector<Column>& again = parsed.columns;
  CHECK(equal(columns[0].ints, again[0].ints) && equal(columns[0].splits, again[0].splits));
  CHECK(equal(columns[1].floats, again[1].floats) && equal(columns[1].splits, again[1].splits));
  CHECK(equal(columns[2].bytes, again[2].bytes) && equal(columns[2].byte_ends, again[2].byte_ends));
}

// A record, itself again and again, and once with a byte changed: together they are what each is by itself.
void alike(const uint8_t* data, size_t size) {
  constexpr size_t rows = 6;
  std::vector<uint8_t> all;
  std::vector<int64_t> offsets{0};
  for (size_t row = 0; row < rows; ++row) {
    all.insert(all.end(), data, data + size);
    offsets.push_back(int64_t(all.size()));
  }
  if (size >= 2) all[3 * size + data[size - 1] % size] ^= data[size - 2];
  Columns together;
  const bool good = parse(3, all.data(), offsets, &together);
  bool each = true;
  for (size_t row = 0; row < rows && each; ++row) {
    Columns alone;
    each = parse(3, all.data() + offsets[row], {0, int64_t(size)}, &alone);
    if (!each || !good) continue;
    CHECK(together.columns[0].int_of[row] == alone.columns[0].int_of[0]);
    CHECK(std::memcmp(together.columns[1].float_of + row, alone.columns[1].float_of, 4) == 0);
    const Column &texts = together.columns[2], &text = alone.columns[2];
    const int64_t first = texts.byte_ends.data()[row], last = texts.byte_ends.data()[row + 1];
    CHECK(size_t(last - first) == text.bytes.size());
    CHECK(text.bytes.size() == 0 || std::memcmp(texts.bytes.data() + first, text.bytes.data(), text.bytes.size()) == 0);
  }
  CHECK(each == good);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const int which : {0, 1}) parse(which, data, {0, int64_t(size)}, nullptr);
  // A parser that accepts only described features accepts nothing that the others reject.
  if (parse(4, data, {0, int64_t(size)}, nullptr)) CHECK(parse(1, data, {0, int64_t(size)}, nullptr));
  Columns made;
  if (parse(2, data, {0, int64_t(size)}, &made)) there_and_back(made.columns, 1);
  alike(data, size);
  const int64_t third = int64_t(size / 3);
  for (const int which : {0, 1, 2, 3, 4}) parse(which, data, {0, third, third, 2 * third, int64_t(size)}, nullptr);
  return 0;
}
