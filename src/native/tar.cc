#include "tar.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_set>

namespace headrace {
namespace {

constexpr size_t kBlock = 512;
constexpr uint64_t kLongestName = 1 << 16;
constexpr uint64_t kHuge = uint64_t(1) << 62;  // stands for every size beyond it

using Text = std::string_view;

Text text_at(const uint8_t* data, size_t size) { return Text(reinterpret_cast<const char*>(data), size); }

Text until_zero(Text field) { return field.substr(0, field.find('\0')); }

Text stripped(Text field) {
  const auto space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!field.empty() && space(field.front())) field.remove_prefix(1);
  while (!field.empty() && space(field.back())) field.remove_suffix(1);
  return field;
}

// The number of this many octal digits; false if there are other characters.
bool octal(Text digits, uint64_t& number) {
  number = 0;
  for (const char c : digits) {
    if (c < '0' || c > '7') return false;
    number = number << 3 | uint64_t(c - '0');  // at most 12 digits
  }
  return true;
}

bool checksum_is_good(const uint8_t* header) {
  uint64_t lanes[2] = {}, said;  // sums of bytes at even and at odd offsets, four of 16 bits in each
  for (size_t i = 0; i < kBlock; i += 8) {
    uint64_t word;
    std::memcpy(&word, header + i, 8);
    lanes[0] += word & 0x00FF00FF00FF00FFu;
    lanes[1] += word >> 8 & 0x00FF00FF00FF00FFu;
  }
  uint64_t sum = 8 * ' ';
  for (const uint64_t lane : lanes) {
    for (int shift = 0; shift < 64; shift += 16) sum += lane >> shift & 0xFFFF;
  }
  for (size_t i = 148; i < 156; ++i) sum -= header[i];
  const Text digits = stripped(until_zero(text_at(header + 148, 8)));
  return !digits.empty() && octal(digits, said) && said == sum;
}

bool size_of_member(const uint8_t* header, uint64_t& size) {
  const uint8_t* const field = header + 124;
  if (!(field[0] & 0x80)) return octal(stripped(until_zero(text_at(field, 12))), size);
  size = 0;
  for (size_t i = 1; i < 12; ++i) {
    if (size >= kHuge >> 8) {
      size = kHuge;
      return true;
    }
    size = size << 8 | field[i];
  }
  return true;
}

std::string name_in(const uint8_t* header) {
  const Text name = until_zero(text_at(header, 100));
  const bool ustar = std::memcmp(header + 257, "ustar\0", 6) == 0;
  const Text prefix = ustar ? until_zero(text_at(header + 345, 155)) : Text();
  return prefix.empty() ? std::string(name) : std::string(prefix) + '/' + std::string(name);
}

// The path in an extended header, whose lines are `length key=value`; empty if there is none.
Text path_in(Text content) {
  while (!content.empty()) {
    const Text digits = content.substr(0, content.find(' '));
    uint64_t length = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9') return {};
      length = std::min(kHuge >> 8, length * 10 + uint64_t(c - '0'));
    }
    if (digits.empty() || length == 0 || length > content.size()) return {};
    const size_t start = digits.size() + 1;
    const Text line = start < length ? content.substr(start, length - 1 - start) : Text();
    constexpr Text kPath = "path=";
    if (line.substr(0, kPath.size()) == kPath) return line.substr(kPath.size());
    if (line == "path") return {};
    content.remove_prefix(size_t(length));
  }
  return {};
}

// Split a name at the first dot of its last part; false if the file belongs to no sample.
bool key_and_ending(Text name, Text& key, Text& ending) {
  if (name.substr(0, 2) == "./") name.remove_prefix(2);
  const size_t slash = name.rfind('/');
  const size_t base = slash == Text::npos ? 0 : slash + 1;
  const size_t dot = name.find('.', base);
  if (dot == Text::npos || dot + 1 == name.size() || dot == base || name.substr(base, dot - base).substr(0, 2) == "__") {
    return false;
  }
  key = name.substr(slash == 0 ? 1 : 0, dot - (slash == 0 ? 1 : 0));
  ending = name.substr(dot + 1);
  return true;
}

// The sample whose members are being read.
class Gatherer {
 public:
  Gatherer(const TarInput& input, TarSamples& out) : input_(input), out_(out) { out_.key_offsets.push(0); }

  bool full() const { return int64_t(out_.begins.size()) >= input_.most; }

  // False if the lower case of the name's ending cannot be computed here.
  bool add(Text name, size_t begin, size_t start, size_t stop, size_t end) {
    Text key, ending;
    if (!key_and_ending(name, key, ending)) return true;
    std::string lower(ending);
    for (char& c : lower) {
      if (uint8_t(c) >= 0x80) return false;
      if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
    }
    if (open_ && (key != key_ || endings_.count(lower))) {
      close(begin);
      if (full()) return true;
    }
    if (!open_) {
      open_ = true;
      key_ = key;
      begin_ = begin;
      endings_.clear();
      std::fill_n(out_.contents.extend(2 * input_.fields.size()), 2 * input_.fields.size(), -1);
    }
    end_ = end;
    int64_t* const contents = out_.contents.data() + out_.contents.size() - 2 * input_.fields.size();
    for (size_t i = 0; i < input_.fields.size(); ++i) {
      if (input_.fields[i] != lower) continue;
      contents[2 * i] = int64_t(start);
      contents[2 * i + 1] = int64_t(stop);
    }
    endings_.insert(std::move(lower));
    return true;
  }

  void close(size_t end) {
    if (!open_) return;
    out_.begins.push(int64_t(begin_));
    out_.ends.push(int64_t(end));
    out_.keys.append(key_.data(), key_.size());
    out_.key_offsets.push(int64_t(out_.keys.size()));
    open_ = false;
  }

  void close() { close(end_); }

  void drop() {
    if (open_) out_.contents.shrink(out_.contents.size() - 2 * input_.fields.size());
    open_ = false;
  }

 private:
  const TarInput& input_;
  TarSamples& out_;
  bool open_ = false;
  std::string key_;
  size_t begin_ = 0, end_ = 0;
  std::unordered_set<std::string> endings_;
};

}  // namespace

void tar_samples(const TarInput& input, TarSamples& out) {
  static const uint8_t kEmpty[kBlock] = {};
  Gatherer samples(input, out);
  std::string long_name;
  size_t at = 0, begin = 0;
  bool begun = false;  // whether headers of the next member have been read, from `begin` on
  const auto stop = [&](TarEnd end) {
    out.end = end;
    out.stopped = int64_t(begun ? begin : at);
  };
  while (at < input.size && input.size - at >= kBlock) {
    const uint8_t* const header = input.data + at;
    if (!begun && header[0] == 0 && std::memcmp(header, kEmpty, kBlock) == 0) {
      at += kBlock;
      continue;
    }
    uint64_t size;
    if (!begun) begin = at;
    begun = true;
    const char kind = char(header[156]);
    const bool extends = kind == 'L' || kind == 'K' || kind == 'x' || kind == 'g';
    const size_t start = at + kBlock;
    if (!checksum_is_good(header) || !size_of_member(header, size) || (extends && size > kLongestName)) {
      samples.close();
      return stop(TarEnd::kDamaged);
    }
    if (size > input.size - start) break;
    const size_t end = start + (size_t(size) + kBlock - 1) / kBlock * kBlock;
    const Text content = text_at(input.data + start, size_t(size));
    if (kind == 'L') {
      long_name = until_zero(content);
    } else if (kind == 'x') {
      const Text path = path_in(content);
      if (!path.empty()) long_name = path;
    } else if (!extends) {
      if (kind == '0' || kind == '\0') {
        const std::string name = long_name.empty() ? name_in(header) : long_name;
        if (!samples.add(name, begin, start, start + size_t(size), end)) return stop(TarEnd::kForeign);
        if (samples.full()) return;
      }
      begun = false;
      long_name.clear();
    }
    at = end;
  }
  if (begun || at < input.size) {
    if (input.final) {
      samples.close(begun ? begin : at);
    } else {
      samples.drop();
    }
    return stop(TarEnd::kMore);
  }
  if (!input.final) return samples.drop();
  if (input.cut) return samples.close(input.size);
  samples.close();
}

}  // namespace headrace
