#include "example.h"

#include <algorithm>

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

bool read_bytes(Reader list, Growing<uint8_t>& out, Growing<int64_t>& ends) {
  uint32_t found;
  while (!list.empty()) {
    if (!list.next_tag(found)) return false;
    if (found == kField1) {
      Reader value;
      if (!list.delimited(value)) return false;
      out.append(value.data(), value.size());
      ends.push(int64_t(out.size()));
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
      return read_bytes(list, out.bytes, out.byte_ends);
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

struct Slot {
  Reader last, last_with_content;
};

// The features of one record, by the numbers of their names; those that are not there have no memory at all. Remembers
// the order in which the record before had them: the records of a file tend to agree.
class Features {
 public:
  explicit Features(const Names& names) : names_(names), slots_(names.size()) {}

  struct Seen {
    std::string_view name;
    int64_t number;  // -1 if nobody asked for it
  };

  const Slot& operator[](size_t number) const { return slots_[number]; }

  // The names of the record just read, in its order.
  const Seen* seen_begin() const { return before_.data(); }
  const Seen* seen_end() const { return before_.data() + position_; }

  void begin() {
    std::fill(slots_.begin(), slots_.end(), Slot());
    position_ = 0;
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
  std::vector<Slot> slots_;
  std::vector<Seen> before_;
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
    if (number < 0) continue;
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

// The commonest feature by far: one number, written as everybody does. False if it is anything else.
bool read_number(Reader feature, Kind kind, Column& out) {
  Reader list, packed;
  if (!feature.is_only(tag(uint32_t(kind), kDelimited), list) || !list.is_only(kField1, packed)) return false;
  if (kind == Kind::kFloat && packed.size() == 4) {
    std::memcpy(out.floats.extend(1), packed.data(), 4);
    return true;
  }
  uint64_t value;
  if (kind != Kind::kInt64 || !packed.varint(value) || !packed.empty()) return false;
  out.ints.push(int64_t(value));
  return true;
}

// Reads records that have the same names in the same order as the one before, and one number each where it was asked
// for: in one go, by comparing with what must stand there. Anything else it refuses, and leaves to the others.
class SameAgain {
 public:
  SameAgain(const std::vector<Request>& requests, const std::vector<size_t>& numbers, std::vector<Column>& columns)
      : requests_(requests), columns_(columns), request_of_(numbers.size(), -1) {
    for (size_t i = 0; i < requests.size(); ++i) {
      const bool number = requests[i].size == 1 && !requests[i].in_steps && requests[i].kind != Kind::kBytes;
      possible_ = possible_ && number && request_of_[numbers[i]] < 0;
      request_of_[numbers[i]] = int64_t(i);
    }
  }

  void learn(const Features& features) {
    entries_.clear();
    if (!possible_) return;
    std::vector<bool> there(request_of_.size());
    size_t found = 0;
    for (const auto* seen = features.seen_begin(); seen != features.seen_end(); ++seen) {
      const bool asked = seen->number >= 0;
      if (asked && there[size_t(seen->number)]) return entries_.clear();  // twice: the last one counts
      if (asked) there[size_t(seen->number)] = ++found;
      entries_.push_back({seen->name, asked ? request_of_[size_t(seen->number)] : -1});
    }
    if (found != requests_.size()) entries_.clear();  // there are defaults to be put
  }

  bool read(Reader record, size_t row) {
    if (entries_.empty()) return false;
    if (read_all(record)) return true;
    for (Column& column : columns_) {
      column.ints.shrink(std::min(column.ints.size(), row));
      column.floats.shrink(std::min(column.floats.size(), row));
    }
    return false;
  }

 private:
  bool read_all(Reader record) {
    uint32_t found;
    Reader map, key, value;
    if (!record.next_tag(found) || found != kField1 || !record.delimited(map) || !record.empty()) return false;
    for (const Entry& entry : entries_) {
      if (entry.request >= 0) {
        if (!read_number(map, entry)) return false;
      } else if (!read_short_entry(map, key, value) || !same(key.text(), entry.name)) {
        return false;
      }
    }
    return map.empty();
  }

  struct Entry {
    std::string_view name;
    int64_t request;  // -1 if nobody asked for it
  };

  // Before the name: tag, size, tag, size. After it, where the number takes n bytes: tag, n + 4, the tag of the kind,
  // n + 2, tag, n.
  bool read_number(Reader& map, const Entry& entry) {
    const size_t name = entry.name.size();
    if (name > kLongestName || map.size() < name + 11) return false;
    const Kind kind = requests_[size_t(entry.request)].kind;
    const uint8_t *at = map.data(), *after = at + 4 + name;
    const uint32_t bytes = after[5];
    const size_t whole = 10 + name + bytes;
    if (bytes > 10 || whole > map.size()) return false;
    const uint8_t before_name[] = {kField1, uint8_t(whole - 2), kField1, uint8_t(name)};
    const uint8_t after_name[] = {kField2, uint8_t(bytes + 4), uint8_t(tag(uint32_t(kind), kDelimited)), uint8_t(bytes + 2)};
    if (std::memcmp(at, before_name, 4) != 0 || std::memcmp(after, after_name, 4) != 0 || after[4] != kField1) return false;
    if (!same({reinterpret_cast<const char*>(at + 4), name}, entry.name)) return false;
    Column& column = columns_[size_t(entry.request)];
    if (kind == Kind::kFloat) {
      if (bytes != 4) return false;
      column.floats.append(after + 6, 1);
    } else {
      uint64_t value;
      if (!read_varint(after + 6, bytes, map.size() - 10 - name, value)) return false;
      column.ints.push(int64_t(value));
    }
    return map.advance(whole);
  }

  // A varint of just so many bytes, without a loop where it has up to four of them and as many can be read.
  static bool read_varint(const uint8_t* at, uint32_t bytes, size_t readable, uint64_t& value) {
    if (bytes == 0 || bytes > 4 || readable < 4) {
      Reader packed(at, bytes);
      return packed.varint(value) && packed.empty();
    }
    const uint32_t last = 8 * (bytes - 1);
    uint32_t word;
    std::memcpy(&word, at, 4);
    word &= UINT32_MAX >> (24 - last);
    if ((word & 0x80808080u) != (0x80808080u & ((1u << last) - 1))) return false;
    value = (word & 0x7Fu) | (word >> 1 & 0x3F80u) | (word >> 2 & 0x1FC000u) | (word >> 3 & 0xFE00000u);
    return true;
  }

  static constexpr size_t kLongestName = 100;  // so that all sizes take one byte

  const std::vector<Request>& requests_;
  std::vector<Column>& columns_;
  std::vector<int64_t> request_of_;  // by the number of a name
  std::vector<Entry> entries_;
  bool possible_ = true;
};

void put_default(const Request& request, Column& out) {
  out.ints.append(request.default_ints.data(), request.default_ints.size());
  out.floats.append(request.default_floats.data(), request.default_floats.size());
  for (const std::string& value : request.default_bytes) {
    out.bytes.append(value.data(), value.size());
    out.byte_ends.push(int64_t(out.bytes.size()));
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

bool read_column(const Slot& slot, const Request& request, Column& out, std::string& wrong) {
  const Reader found = request.skip_empty ? slot.last_with_content : slot.last;
  if (found.data()) {
    if (request.size == 1 && !request.in_steps && read_number(found, request.kind, out)) return true;
    return request.in_steps ? read_steps(found, request, out, wrong) : read_feature(found, request, out, wrong);
  }
  if (request.required) {
    wrong = request.in_steps ? " is missing" : " is missing and has no default";
    return false;
  }
  if (request.in_steps) {
    out.steps.push(out.steps[out.steps.size() - 1]);
  } else {
    put_default(request, out);
  }
  return true;
}

}  // namespace

size_t Column::values(Kind kind) const {
  return kind == Kind::kInt64 ? ints.size() : kind == Kind::kFloat ? floats.size() : byte_ends.size() - 1;
}

ExampleParser::ExampleParser(std::vector<Request> requests) : requests_(std::move(requests)) {
  for (const Request& request : requests_) {  // whose names stay where they are
    Names& names = request.in_steps ? lists_ : features_;
    numbers_.push_back(names.emplace(request.name, names.size()).first->second);
  }
}

std::vector<Column> ExampleParser::parse(const uint8_t* values, const int64_t* offsets, int64_t rows,
                                         Refusal& refusal) const {
  std::vector<Column> columns(requests_.size());
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i].kind == Kind::kBytes) columns[i].byte_ends.push(0);
    if (requests_[i].size < 0) columns[i].splits.push(0);
    if (requests_[i].in_steps) columns[i].steps.push(0);
  }
  Features features(features_), lists(lists_);
  SameAgain same_again(requests_, numbers_, columns);
  std::string wrong;
  for (int64_t row = 0; row < rows; ++row) {
    const Reader whole(values + offsets[row], size_t(offsets[row + 1] - offsets[row]));
    if (same_again.read(whole, size_t(row))) continue;
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
      } else if (found == kField2 && !lists_.empty()) {
        good = record.delimited(map) && lists.read(map);
      } else {
        good = record.skip(found);
      }
    }
    if (!good) {
      refusal = {row, "not an Example: the bytes are damaged before byte " + std::to_string(whole.size() - record.size())};
      return columns;
    }
    for (size_t i = 0; i < requests_.size(); ++i) {
      const Request& request = requests_[i];
      const Slot& slot = (request.in_steps ? lists : features)[numbers_[i]];
      if (!read_column(slot, request, columns[i], wrong)) {
        refusal = {row, quoted(request) + wrong};
        return columns;
      }
    }
    same_again.learn(features);
  }
  return columns;
}

}  // namespace headrace
