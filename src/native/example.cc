#include "example.h"

#include <algorithm>
#include <utility>

namespace headrace {
namespace {

constexpr uint32_t kField1 = tag(1, kDelimited), kField2 = tag(2, kDelimited);

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kBytes:
      return "bytes";
    case Kind::kFloat:
      return "float32";
    case Kind::kInt64:
      return "int64";
    default:
      return "nothing";
  }
}

bool read_ints(Reader list, Growing<int64_t>& out) {
  uint32_t found;
  uint64_t value;
  Reader packed;
  const auto unpack = [&] {
    while (!packed.empty()) {
      if (!packed.varint(value)) return false;
      out.push(int64_t(value));
    }
    return true;
  };
  while (!list.empty()) {
    if (!list.next_tag(found)) return false;
    if (found == kField1) {
      if (!list.delimited(packed) || !unpack()) return false;
    } else if (found == tag(1, kVarint)) {
      if (!list.varint(value)) return false;
      out.push(int64_t(value));
    } else if (!list.skip(found)) {
      return false;
    }
  }
  return true;
}

bool read_floats(Reader list, Growing<float>& out) {
  uint32_t found;
  Reader packed;
  while (!list.empty()) {
    if (!list.next_tag(found)) return false;
    if (found == kField1) {
      if (!list.delimited(packed) || packed.size() % 4) return false;
      out.append(packed.data(), packed.size() / 4);
    } else if (found == tag(1, kFixed32)) {
      const uint8_t* value = list.data();
      if (!list.advance(4)) return false;
      out.append(value, 1);
    } else if (!list.skip(found)) {
      return false;
    }
  }
  return true;
}

bool read_bytes(Reader list, Column& out) {
  uint32_t found;
  while (!list.empty()) {
    if (!list.next_tag(found)) return false;
    if (found == kField1) {
      Reader value;
      if (!list.delimited(value)) return false;
      out.push_text(value.data(), value.size(), value.data() + value.size());
    } else if (!list.skip(found)) {
      return false;
    }
  }
  return true;
}

bool read_list(Reader list, Kind kind, Column& out) {
  switch (kind) {
    case Kind::kInt64:
      return read_ints(list, out.ints);
    case Kind::kFloat:
      return read_floats(list, out.floats);
    default:
      return read_bytes(list, out);
  }
}

// What a Feature holds: the kind of its last list, and the lists of this kind that no other kind comes after. All but
// always this is one list.
struct Lists {
  static bool is_list(uint32_t found) { return (found & 7) == kDelimited && found >> 3 >= 1 && found >> 3 <= 3; }

  Kind kind = Kind::kNone;
  size_t count = 0;
  Reader first, rest;

  bool open(Reader feature) {
    uint32_t found;
    while (!feature.empty()) {
      if (!feature.next_tag(found)) return false;
      if (is_list(found)) {
        Reader list;
        if (!feature.delimited(list)) return false;
        if (kind != Kind(found >> 3)) {
          kind = Kind(found >> 3);
          count = 0;
        }
        if (count++ == 0) {
          first = list;
          rest = feature;
        }
      } else if (!feature.skip(found)) {
        return false;
      }
    }
    return true;
  }

  bool read(Column& out) const {
    if (count == 0) return true;
    if (!read_list(first, kind, out)) return false;
    Reader others = rest, list;
    for (uint32_t found; count > 1 && others.next_tag(found);) {
      if (found != tag(uint32_t(kind), kDelimited)) {
        if (!others.skip(found)) return false;
      } else if (!others.delimited(list) || !read_list(list, kind, out)) {
        return false;
      }
    }
    return true;
  }
};

// The next entry of a map if it is short and in the usual order: tag, size, tag, size, key, tag, size, value.
bool read_short_entry(Reader& map, Reader& key, Reader& value) {
  const uint8_t* at = map.data();
  const size_t left = map.size();
  if (left < 6 || at[0] != kField1 || at[1] < 4 || at[1] >= 0x80 || at[1] > left - 2 || at[2] != kField1) return false;
  const size_t entry = at[1], name = at[3];
  if (name > entry - 4 || at[4 + name] != kField2 || at[5 + name] != entry - 4 - name) return false;
  key = Reader(at + 4, name);
  value = Reader(at + 6 + name, entry - 4 - name);
  return map.advance(2 + entry);
}

// A map's entry: key and value in any order; what is missing is empty.
bool read_entry(Reader entry, Reader& key, Reader& value) {
  key = value = Reader(entry.data(), 0);
  uint32_t found;
  while (!entry.empty()) {
    if (!entry.next_tag(found)) return false;
    if (!(found == kField1 ? entry.delimited(key) : found == kField2 ? entry.delimited(value) : entry.skip(found))) {
      return false;
    }
  }
  return true;
}

// Whether a feature has a name only.
bool holds_nothing(Reader feature) {
  Lists lists;
  return lists.open(feature) && lists.kind == Kind::kNone;
}

struct Slot {
  Reader last, last_with_content;
};

// The features of one record, by the numbers of their names; missing ones have no memory. Remembers the order in the
// previous record: the records of a file tend to agree.
class Features {
 public:
  Features(const Names& names, bool closed) : names_(names), closed_(closed), slots_(names.size()) {}

  struct Seen {
    std::string_view name;
    int64_t number;  // -1 if it was not requested
  };

  const Slot& operator[](size_t number) const { return slots_[number]; }

  // If unrequested features are rejected: whether the record has one, and its name.
  bool has_stranger() const { return has_stranger_; }
  std::string_view stranger() const { return stranger_; }

  // The names of the record just read, in its order.
  const Seen* seen_begin() const { return before_.data(); }
  const Seen* seen_end() const { return before_.data() + position_; }

  void begin() {
    std::fill(slots_.begin(), slots_.end(), Slot());
    position_ = 0;
    has_stranger_ = false;
  }

  bool read(Reader map);

 private:
  int64_t find(std::string_view name) {
    if (position_ == before_.size()) before_.push_back({{}, kUnknown});
    Seen& seen = before_[position_++];
    if (seen.number == kUnknown || !same(seen.name, name)) {
      const auto place = names_.find(name);
      seen = {name, place == names_.end() ? -1 : int64_t(place->second)};
    }
    return seen.number;
  }

  static constexpr int64_t kUnknown = -2;

  const Names& names_;
  const bool closed_;
  std::vector<Slot> slots_;
  std::vector<Seen> before_;
  bool has_stranger_ = false;
  std::string_view stranger_;
  size_t position_ = 0;
};

bool Features::read(Reader map) {
  uint32_t found;
  Reader entry, key, value;
  while (!map.empty()) {
    if (!read_short_entry(map, key, value)) {
      if (!map.next_tag(found)) return false;
      if (found != kField1) {
        if (!map.skip(found)) return false;
        continue;
      }
      if (!map.delimited(entry) || !read_entry(entry, key, value)) return false;
    }
    const int64_t number = find(key.text());
    if (number < 0) {
      if (closed_ && !has_stranger_ && !holds_nothing(value)) {
        has_stranger_ = true;
        stranger_ = key.text();
      }
      continue;
    }
    Slot& slot = slots_[size_t(number)];
    slot.last = value;
    if (!value.empty()) slot.last_with_content = value;
  }
  return true;
}

std::string quoted(const Request& request) {
  return (request.in_steps ? "feature list '" : "feature '") + request.name + "'";
}

// One record's, or one step's, values of a request; says what is wrong with them.
bool read_feature(Reader feature, const Request& request, Column& out, std::string& wrong) {
  const size_t before = out.values(request.kind);
  Lists lists;
  if (!lists.open(feature)) {
    wrong = " is damaged";
    return false;
  }
  if (lists.kind != Kind::kNone && lists.kind != request.kind) {
    wrong = std::string(" holds ") + name_of(lists.kind) + " where " + name_of(request.kind) + " was asked";
    return false;
  }
  if (!lists.read(out)) {
    wrong = " is damaged";
    return false;
  }
  const int64_t count = int64_t(out.values(request.kind) - before);
  if (request.size >= 0 && count != request.size) {
    wrong = " has " + std::to_string(count) + (count == 1 ? " value" : " values") + " where " +
            std::to_string(request.size) + (request.size == 1 ? " was asked" : " were asked");
    return false;
  }
  if (request.multiple > 1 && count % request.multiple != 0) {
    wrong = " has " + std::to_string(count) + " values, which is no multiple of " + std::to_string(request.multiple);
    return false;
  }
  if (request.size < 0) out.splits.push(int64_t(out.values(request.kind)));
  return true;
}

// The most common feature by far: one number in the usual encoding. False if it is anything else.
bool read_number(Reader feature, Kind kind, Column& out, size_t row) {
  Reader list, packed;
  if (!feature.is_only(tag(uint32_t(kind), kDelimited), list) || !list.is_only(kField1, packed)) return false;
  if (kind == Kind::kFloat) {
    if (packed.size() != 4) return false;
    std::memcpy(out.float_of + row, packed.data(), 4);
    return true;
  }
  uint64_t value;
  if (!packed.varint(value) || !packed.empty()) return false;
  out.int_of[row] = int64_t(value);
  return true;
}

template <typename Word>
Word load(const uint8_t* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// Read records that have the same names in the same order as the previous one, and one number or one short text for
// each request: at once, by comparing with the expected bytes. Anything else is left to the general parser.
class SameAgain {
 public:
  // Records end at or before `end`.
  SameAgain(const std::vector<Request>& requests, const std::vector<size_t>& numbers, std::vector<Column>& columns,
            const uint8_t* end, bool closed)
      : requests_(requests), columns_(columns), end_(end), closed_(closed), request_of_(numbers.size(), -1) {
    for (size_t i = 0; i < requests.size(); ++i) {
      const bool single = requests[i].single_number() || requests[i].single_text();
      possible_ = possible_ && single && request_of_[numbers[i]] < 0;
      request_of_[numbers[i]] = int64_t(i);
    }
  }

  bool read(Reader record, size_t row) {
    if (entries_.empty()) return false;
    if (!read_all(record, row)) {
      for (const Entry& entry : entries_) {  // each has had one text of every record before
        if (entry.text) entry.text->shrink_text(row);
      }
      return false;
    }
    wait_ = 0;
    return true;
  }

  // Expect records like the one just read from now on; less often if that did not help before.
  void learn(const Features& features) {
    if (!possible_ || learnt_++ < wait_) return;
    learnt_ = 0;
    wait_ = 2 * wait_ + 1;
    if (!note(features)) entries_.clear();
  }

 private:
  struct Entry {
    std::string_view name;
    int64_t* int_of;
    float* float_of;
    Column* text;  // all null if it was not requested
    size_t prefix;
    uint32_t head;   // before the name: tag, size, tag, size
    uint64_t after;  // after it
  };

  bool note(const Features& features) {
    entries_.clear();
    reach_ = 0;
    std::vector<bool> there(requests_.size());
    size_t found = 0;
    for (const auto* seen = features.seen_begin(); seen != features.seen_end(); ++seen) {
      const int64_t request = seen->number < 0 ? -1 : request_of_[size_t(seen->number)];
      if (request < 0) {
        if (closed_) return false;  // it is empty here, and may not be in the next
        entries_.push_back({seen->name, nullptr, nullptr, nullptr, 0, 0, 0});
        continue;
      }
      // Of duplicates the last one counts.
      if (seen->name.size() > kLongestName || there[size_t(request)]) return false;
      there[size_t(request)] = ++found;
      add(seen->name, size_t(request));
    }
    return found == requests_.size();  // else defaults must be written
  }

  // Before the name: tag, size, tag, size. After it, if the value takes n bytes: tag, n + 4, the tag of the kind, n +
  // 2, tag, n. What depends on n is added when it is known.
  void add(std::string_view name, size_t request) {
    Column& column = columns_[request];
    const size_t prefix = name.size() + 10;
    const uint8_t kind = uint8_t(tag(uint32_t(requests_[request].kind), kDelimited));
    const uint8_t head[4] = {kField1, uint8_t(prefix - 2), kField1, uint8_t(name.size())};
    const uint8_t after[8] = {kField2, 4, kind, 2, kField1};
    Column* const text = requests_[request].single_text() ? &column : nullptr;
    entries_.push_back({name, column.int_of, column.float_of, text, prefix, load<uint32_t>(head), load<uint64_t>(after)});
    reach_ += prefix + kLongestNumber;
  }

  bool read_all(Reader record, size_t row) const {
    uint32_t found;
    Reader map, key, value;
    if (!record.next_tag(found) || found != kField1 || !record.delimited(map) || !record.empty()) return false;
    const uint8_t *at = map.data(), *const stop = at + map.size();
    if (size_t(end_ - at) < reach_) return false;
    for (const Entry& entry : entries_) {
      if (entry.text) {
        if (!read_text(entry, at) || size_t(end_ - at) < reach_) return false;
      } else if (!entry.int_of && !entry.float_of) {
        if (at >= stop) return false;
        map = Reader(at, size_t(stop - at));
        if (!read_short_entry(map, key, value) || !same(key.text(), entry.name)) return false;
        at = map.data();
        if (size_t(end_ - at) < reach_) return false;
      } else if (!read_number(entry, at, row)) {
        return false;
      }
    }
    return at == stop;  // numbers may have been read beyond it, in other records
  }

  // Whether a value of this many bytes follows its name as expected.
  static bool begins(const Entry& entry, const uint8_t* at, uint64_t bytes) {
    return load<uint32_t>(at) == entry.head + uint32_t(bytes << 8) &&
           same({reinterpret_cast<const char*>(at + 4), entry.name.size()}, entry.name) &&
           !((load<uint64_t>(at + entry.prefix - 6) ^ (entry.after + bytes * 0x010001000100u)) << 16);
  }

  bool read_text(const Entry& entry, const uint8_t*& at) const {
    if (at[1] >= 0x80) return read_long_text(entry, at);
    const uint64_t bytes = at[entry.prefix - 1];
    if (bytes > kLongestEntry - (entry.prefix - 2) || !begins(entry, at, bytes)) return false;
    at += entry.prefix;
    if (size_t(end_ - at) < bytes) return false;
    entry.text->push_text(at, bytes, end_);
    at += bytes;
    return true;
  }

  // The same if sizes take more than a byte: each must match what follows.
  bool read_long_text(const Entry& entry, const uint8_t*& at) const {
    Reader rest(at, size_t(end_ - at)), inside, name, feature, list, text;
    uint32_t found;
    const auto next = [&](Reader& from, uint32_t wanted, Reader& field) {
      return from.next_tag(found) && found == wanted && from.delimited(field);
    };
    if (!next(rest, kField1, inside) || !next(inside, kField1, name) || !same(name.text(), entry.name)) return false;
    if (!next(inside, kField2, feature) || !inside.empty()) return false;
    if (!next(feature, tag(uint32_t(Kind::kBytes), kDelimited), list) || !feature.empty()) return false;
    if (!next(list, kField1, text) || !list.empty()) return false;
    entry.text->push_text(text.data(), text.size(), end_);
    at = rest.data();
    return true;
  }

  bool read_number(const Entry& entry, const uint8_t*& at, size_t row) const {
    const uint64_t bytes = entry.float_of ? 4 : at[entry.prefix - 1];
    if (bytes > kLongestNumber || !begins(entry, at, bytes)) return false;
    at += entry.prefix;
    if (entry.float_of) {
      std::memcpy(entry.float_of + row, at, 4);
    } else {
      uint64_t value;
      if (!read_varint(at, bytes, value)) return false;
      entry.int_of[row] = int64_t(value);
    }
    at += bytes;
    return true;
  }

  // A varint of exactly this many bytes, without a loop up to eight of them.
  static bool read_varint(const uint8_t* at, size_t bytes, uint64_t& value) {
    if (bytes == 0) return false;
    if (bytes <= 4) return read_short_varint<uint32_t>(at, bytes, value);
    if (bytes <= 8) return read_short_varint<uint64_t>(at, bytes, value);
    Reader packed(at, bytes);
    return packed.varint(value) && packed.empty();
  }

  // All bytes but the last have the highest bit set; the other bits close up, by pairs, pairs of pairs and so on.
  template <typename Word>
  static bool read_short_varint(const uint8_t* at, size_t bytes, uint64_t& value) {
    constexpr Word more = Word(0x8080808080808080u);
    const size_t last = 8 * (bytes - 1);
    Word word = load<Word>(at) & (Word(-1) >> (8 * sizeof(Word) - 8 - last));
    if ((word & more) != (more & ((Word(1) << last) - 1))) return false;
    word &= Word(~more);
    word = (word & Word(0x007F007F007F007Fu)) | (word & Word(0x7F007F007F007F00u)) >> 1;
    word = (word & Word(0x00003FFF00003FFFu)) | (word & Word(0x3FFF00003FFF0000u)) >> 2;
    if constexpr (sizeof(Word) == 8) word = (word & 0x000000000FFFFFFFu) | (word & 0x0FFFFFFF00000000u) >> 4;
    value = word;
    return true;
  }

  static constexpr size_t kLongestName = 100;  // so that all sizes take one byte
  static constexpr size_t kLongestNumber = 10;  // of a varint
  static constexpr size_t kLongestEntry = 127;

  const std::vector<Request>& requests_;
  std::vector<Column>& columns_;
  const uint8_t* end_;
  const bool closed_;
  std::vector<int64_t> request_of_;  // by the number of a name
  std::vector<Entry> entries_;
  size_t reach_ = 0;  // how many bytes all the numbers take at most, and no word that is read is beyond them
  size_t learnt_ = 0, wait_ = 0;
  bool possible_ = true;
};

void put_default(const Request& request, Column& out) {
  out.ints.append(request.default_ints.data(), request.default_ints.size());
  out.floats.append(request.default_floats.data(), request.default_floats.size());
  for (const std::string& value : request.default_bytes) {
    const auto* text = reinterpret_cast<const uint8_t*>(value.data());
    out.push_text(text, value.size(), text + value.size());
  }
  if (request.size < 0) out.splits.push(int64_t(out.values(request.kind)));
}

bool read_steps(Reader list, const Request& request, Column& out, std::string& wrong) {
  int64_t steps = 0;
  uint32_t found;
  while (!list.empty()) {
    Reader feature;
    if (!list.next_tag(found) || (found == kField1 ? !list.delimited(feature) : !list.skip(found))) {
      wrong = " is damaged";
      return false;
    }
    if (found != kField1) continue;
    if (!read_feature(feature, request, out, wrong)) {
      wrong = ", step " + std::to_string(steps) + wrong;
      return false;
    }
    ++steps;
  }
  out.steps.push(out.steps[out.steps.size() - 1] + steps);
  return true;
}

// Move a single number to its slot.
bool settle(Column& out, size_t row) {
  if (out.int_of) out.int_of[row] = out.ints[0];
  if (out.float_of) out.float_of[row] = out.floats[0];
  if (out.int_of || out.float_of) {
    out.ints.shrink(0);
    out.floats.shrink(0);
  }
  return true;
}

bool read_column(const Slot& slot, const Request& request, Column& out, size_t row, std::string& wrong) {
  const Reader found = request.skip_empty ? slot.last_with_content : slot.last;
  if (found.data()) {
    if (request.single_number() && read_number(found, request.kind, out, row)) return true;
    if (request.in_steps) return read_steps(found, request, out, wrong);
    return read_feature(found, request, out, wrong) && settle(out, row);
  }
  if (request.required) {
    wrong = request.in_steps ? " is missing" : " is missing and has no default";
    return false;
  }
  if (request.in_steps) {
    out.steps.push(out.steps[out.steps.size() - 1]);
    return true;
  }
  put_default(request, out);
  return settle(out, row);
}

}  // namespace

void Column::push_text(const uint8_t* from, size_t size, const uint8_t* end) {
  constexpr size_t kAtOnce = 16;
  if (pointed) {
    texts.push(from);
    byte_ends.push(byte_ends[byte_ends.size() - 1] + int64_t(size));
    return;
  }
  const size_t before = bytes.size();
  if (size <= kAtOnce && size_t(end - from) >= kAtOnce) {  // most text is short: without a call
    std::memcpy(bytes.extend(kAtOnce), from, kAtOnce);
    bytes.shrink(before + size);
  } else {
    bytes.append(from, size);
  }
  byte_ends.push(int64_t(before + size));
}

void Column::shrink_text(size_t values) {
  byte_ends.shrink(values + 1);
  if (pointed) return texts.shrink(values);
  bytes.shrink(size_t(byte_ends[values]));
}

size_t Column::values(Kind kind) const {
  return kind == Kind::kInt64 ? ints.size() : kind == Kind::kFloat ? floats.size() : byte_ends.size() - 1;
}

ExampleParser::ExampleParser(std::vector<Request> requests, bool closed)
    : requests_(std::move(requests)), closed_(closed) {
  for (const Request& request : requests_) {  // whose names do not move
    Names& names = request.in_steps ? lists_ : features_;
    numbers_.push_back(names.emplace(request.name, names.size()).first->second);
  }
}

Columns ExampleParser::begin(size_t rows) const {
  Columns made{std::vector<Column>(requests_.size()), {}, {}, rows, 0};
  const auto asked = [&](Kind kind) {
    return size_t(std::count_if(requests_.begin(), requests_.end(),
                                [&](const Request& r) { return r.single_number() && r.kind == kind; }));
  };
  int64_t* ints = made.ints.extend(rows * asked(Kind::kInt64));
  float* floats = made.floats.extend(rows * asked(Kind::kFloat));
  for (size_t i = 0; i < requests_.size(); ++i) {
    const Request& request = requests_[i];
    Column& column = made.columns[i];
    if (request.single_text()) column.byte_ends.extend(rows + 1), column.byte_ends.shrink(0);
    if (request.kind == Kind::kBytes) column.byte_ends.push(0);
    if (request.size < 0) column.splits.push(0);
    if (request.in_steps) column.steps.push(0);
    if (!request.single_number()) continue;
    if (request.kind == Kind::kInt64) column.int_of = std::exchange(ints, ints + rows);
    if (request.kind == Kind::kFloat) column.float_of = std::exchange(floats, floats + rows);
  }
  return made;
}

Columns ExampleParser::part_of(const Columns& whole, int64_t first, int64_t rows) const {
  Columns made = begin(0);
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (whole.columns[i].int_of) made.columns[i].int_of = whole.columns[i].int_of + first;
    if (whole.columns[i].float_of) made.columns[i].float_of = whole.columns[i].float_of + first;
    if (!requests_[i].single_text()) continue;
    made.columns[i].pointed = true;
    made.columns[i].texts.expect(size_t(rows));
    made.columns[i].byte_ends.expect(size_t(rows) + 1);
  }
  return made;
}

Columns ExampleParser::parse(const uint8_t* values, const int64_t* offsets, int64_t rows, Refusal& refusal) const {
  Columns made = begin(size_t(rows));
  parse_some(values, offsets, rows, 0, made, refusal);
  return made;
}

bool ExampleParser::parse_some(const uint8_t* values, const int64_t* offsets, int64_t rows, int64_t first, Columns& made,
                               Refusal& refusal) const {
  Features features(features_, closed_), lists(lists_, closed_);
  SameAgain same_again(requests_, numbers_, made.columns, values + offsets[rows], closed_);
  std::string wrong;
  for (int64_t row = 0; row < rows; ++row) {
    const Reader whole(values + offsets[row], size_t(offsets[row + 1] - offsets[row]));
    if (same_again.read(whole, size_t(first + row))) continue;
    features.begin();
    lists.begin();
    Reader record = whole;
    bool good = true;
    while (good && !record.empty()) {
      uint32_t found;
      Reader map;
      good = record.next_tag(found);
      if (!good) break;
      if (found == kField1) {
        good = record.delimited(map) && features.read(map);
      } else if (found == kField2 && (closed_ || !lists_.empty())) {
        good = record.delimited(map) && lists.read(map);
      } else {
        good = record.skip(found);
      }
    }
    if (!good) {
      refusal = {first + row, "not an Example: the bytes are damaged before byte " + std::to_string(whole.size() - record.size())};
      return false;
    }
    for (const Features* some : {&features, &lists}) {
      if (!some->has_stranger()) continue;
      const char* what = some == &lists ? "feature list '" : "feature '";
      refusal = {first + row, what + std::string(some->stranger()) + "' is none of those that are described"};
      return false;
    }
    for (size_t i = 0; i < requests_.size(); ++i) {
      const Request& request = requests_[i];
      const Slot& slot = (request.in_steps ? lists : features)[numbers_[i]];
      if (!read_column(slot, request, made.columns[i], size_t(first + row), wrong)) {
        refusal = {first + row, quoted(request) + wrong};
        return false;
      }
    }
    same_again.learn(features);
    if (first + row == 0) {  // the others will be similar, but never more than there is
      const size_t all = made.record_bytes ? made.record_bytes : size_t(offsets[rows] - offsets[0]);
      for (Column& column : made.columns) column.bytes.expect(std::min(all, column.bytes.size() * made.rows));
    }
  }
  return true;
}

}  // namespace headrace
