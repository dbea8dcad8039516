// Hashes with TensorFlow's numbers: FarmHash's Fingerprint64 and how two are combined, and SipHash-2-4.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <new>

#include "kernels.h"

namespace headrace {
namespace {

constexpr uint64_t k0 = 0xc3a5c85c97cb3127, k1 = 0xb492b66fbe98f273, k2 = 0x9ae16a3b2f90404f;

uint64_t load64(const uint8_t* at) {
  uint64_t word;
  std::memcpy(&word, at, 8);
  return word;
}

uint64_t load32(const uint8_t* at) {
  uint32_t word;
  std::memcpy(&word, at, 4);
  return word;
}

uint64_t right(uint64_t word, int bits) { return word >> bits | word << (64 - bits); }
uint64_t left(uint64_t word, int bits) { return word << bits | word >> (64 - bits); }
uint64_t mix(uint64_t word) { return word ^ (word >> 47); }

uint64_t fold(uint64_t low, uint64_t high, uint64_t factor) {
  return mix((high ^ mix((low ^ high) * factor)) * factor) * factor;
}

uint64_t upto16(const uint8_t* s, size_t size) {
  const uint64_t factor = k2 + 2 * size;
  if (size >= 8) {
    const uint64_t first = load64(s) + k2, last = load64(s + size - 8);
    return fold(right(last, 37) * factor + first, (right(first, 25) + last) * factor, factor);
  }
  if (size >= 4) return fold(size + (load32(s) << 3), load32(s + size - 4), factor);
  if (size == 0) return k2;
  const uint64_t ends = s[0] + (uint64_t(s[size >> 1]) << 8), rest = size + (uint64_t(s[size - 1]) << 2);
  return mix((ends * k2) ^ (rest * k0)) * k2;
}

// What the lengths 17 to 64 begin with: the words at both ends.
struct Ends {
  uint64_t a, b, c, d;
  Ends(const uint8_t* s, size_t size, uint64_t first_factor, uint64_t factor)
      : a(load64(s) * first_factor), b(load64(s + 8)), c(load64(s + size - 8) * factor), d(load64(s + size - 16) * k2) {}
  uint64_t low() const { return right(a + b, 43) + right(c, 30) + d; }
  uint64_t high() const { return a + right(b + k2, 18) + c; }
};

uint64_t upto32(const uint8_t* s, size_t size) {
  const uint64_t factor = k2 + 2 * size;
  const Ends ends(s, size, k1, factor);
  return fold(ends.low(), ends.high(), factor);
}

uint64_t upto64(const uint8_t* s, size_t size) {
  const uint64_t factor = k2 + 2 * size;
  const Ends ends(s, size, k2, factor);
  const uint64_t y = ends.low(), z = fold(y, ends.high(), factor);
  const uint64_t e = load64(s + 16) * factor, f = load64(s + 24);
  const uint64_t g = (y + load64(s + size - 32)) * factor, h = (z + load64(s + size - 24)) * factor;
  return fold(right(e + f, 43) + right(g, 30) + h, e + right(f + ends.a, 18) + g, factor);
}

// The state of longer strings, 56 bytes that take in 64 at a time.
struct Long {
  uint64_t x, y, z, v0 = 0, v1 = 0, w0 = 0, w1 = 0;

  static void weak(const uint8_t* s, uint64_t a, uint64_t b, uint64_t& low, uint64_t& high) {
    const uint64_t last = load64(s + 24);
    a += load64(s);
    b = right(b + a + last, 21);
    const uint64_t first = a;
    a += load64(s + 8) + load64(s + 16);
    b += right(a, 44);
    low = a + last;
    high = b + first;
  }

  // The last 64 bytes weigh differently: `odd` is 9 then, else 1.
  void take(const uint8_t* s, uint64_t factor, uint64_t odd) {
    x = right(x + y + v0 + load64(s + 8), 37) * factor;
    y = right(y + v1 + load64(s + 48), 42) * factor;
    x ^= w1 * odd;
    y += v0 * odd + load64(s + 40);
    z = right(z + w0, 33) * factor;
    weak(s, v1 * factor, x + w0, v0, v1);
    weak(s + 32, z + w1, y + load64(s + 16), w0, w1);
    std::swap(z, x);
  }
};

uint64_t beyond64(const uint8_t* s, size_t size) {
  constexpr uint64_t kSeed = 81;
  const uint8_t* const end = s + (size - 1) / 64 * 64;
  const uint8_t* const last64 = s + size - 64;
  Long state{kSeed * k2 + load64(s), kSeed * k1 + 113, 0};
  state.z = mix(state.y * k2 + 113) * k2;
  for (; s != end; s += 64) state.take(s, k1, 1);
  const uint64_t factor = k1 + ((state.z & 0xff) << 1);
  state.w0 += (size - 1) & 63;
  state.v0 += state.w0;
  state.w0 += state.v0;
  state.take(last64, factor, 9);
  return fold(fold(state.v0, state.w0, factor) + mix(state.y) * k0 + state.z,
              fold(state.v1, state.w1, factor) + state.x, factor);
}

struct Sip {
  uint64_t a, b, c, d;
  Sip(uint64_t low, uint64_t high)
      : a(low ^ 0x736f6d6570736575), b(high ^ 0x646f72616e646f6d), c(low ^ 0x6c7967656e657261), d(high ^ 0x7465646279746573) {}
  void round() {
    a += b, c += d;
    b = left(b, 13) ^ a, d = left(d, 16) ^ c;
    a = left(a, 32) + d, c += b;
    d = left(d, 21) ^ a, b = left(b, 17) ^ c;
    c = left(c, 32);
  }
  void take(uint64_t word) {
    d ^= word;
    round(), round();
    a ^= word;
  }
};

// The decimal text of a number.
struct Decimal {
  char text[20];
  size_t size;
  explicit Decimal(int64_t number) : size(size_t(std::to_chars(text, text + sizeof text, number).ptr - text)) {}
  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(text); }
};

}  // namespace

uint64_t fingerprint64(const uint8_t* s, size_t size) {
  return size <= 16 ? upto16(s, size) : size <= 32 ? upto32(s, size) : size <= 64 ? upto64(s, size) : beyond64(s, size);
}

uint64_t siphash(const uint8_t* s, size_t size, uint64_t low, uint64_t high) {
  Sip state(low, high);
  const uint8_t* const end = s + size / 8 * 8;
  for (const uint8_t* at = s; at != end; at += 8) state.take(load64(at));
  uint64_t last = uint64_t(size) << 56;
  for (size_t i = 0; i < size % 8; ++i) last |= uint64_t(end[i]) << (8 * i);
  state.take(last);
  state.c ^= 0xff;
  for (int i = 0; i < 4; ++i) state.round();
  return state.a ^ state.b ^ state.c ^ state.d;
}

uint64_t combine(uint64_t one, uint64_t other) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995;
  const uint64_t made = ((one ^ kFactor) ^ mix(other * kFactor) * kFactor) * kFactor;
  return mix(mix(made) * kFactor);
}

void hash_text(const uint8_t* values, const int64_t* offsets, int64_t rows, const uint64_t* salt, uint64_t* out) {
  for (int64_t i = 0; i < rows; ++i) {
    const uint8_t* const row = values + offsets[i];
    const size_t size = size_t(offsets[i + 1] - offsets[i]);
    out[i] = salt ? siphash(row, size, salt[0], salt[1]) : fingerprint64(row, size);
  }
}

void hash_numbers(const int64_t* numbers, int64_t count, const uint64_t* salt, uint64_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    const Decimal text(numbers[i]);
    out[i] = salt ? siphash(text.data(), text.size, salt[0], salt[1]) : fingerprint64(text.data(), text.size);
  }
}

Modulo::Modulo(uint64_t divisor) : divisor_(divisor), inverse_(~static_cast<Wide>(0) / divisor + 1) {}

void hash_buckets(const uint64_t* hashes, int64_t count, uint64_t buckets, int64_t first, int64_t* out) {
  const Modulo modulo(buckets);
  for (int64_t i = 0; i < count; ++i) out[i] = first + int64_t(modulo(hashes[i]));
}

void cross_rows(uint64_t* made, const uint64_t* hashes, int64_t count) {
  for (int64_t i = 0; i < count; ++i) made[i] = combine(made[i], hashes[i]);
}

void cross_product(const std::vector<CrossPart>& parts, int64_t rows, uint64_t key, uint64_t buckets, Growing<int64_t>& out,
                   int64_t* offsets) {
  const Modulo modulo(buckets);
  std::vector<uint64_t> prefix(parts.size() + 1, key);
  std::vector<int64_t> at(parts.size());
  offsets[0] = 0;
  for (int64_t row = 0; row < rows; ++row) {
    size_t count = 1;
    for (const CrossPart& part : parts) {
      if (__builtin_mul_overflow(count, size_t(part.offsets[row + 1] - part.offsets[row]), &count)) throw std::bad_alloc();
    }
    int64_t* to = out.extend(count);
    offsets[row + 1] = int64_t(out.size());
    for (size_t p = 0; p < parts.size(); ++p) at[p] = parts[p].offsets[row];
    for (size_t from = 0; count; --count) {
      for (size_t p = from; p < parts.size(); ++p) prefix[p + 1] = combine(prefix[p], parts[p].hashes[at[p]]);
      *to++ = int64_t(modulo(prefix.back()));
      for (from = parts.size(); from-- > 0;) {  // the last part turns fastest
        if (++at[from] < parts[from].offsets[row + 1]) break;
        at[from] = parts[from].offsets[row];
      }
      if (from == size_t(-1)) break;
    }
  }
}

TextTable::TextTable(const uint8_t* values, const int64_t* offsets, int64_t rows)
    : values_(values + offsets[0], values + offsets[rows]), offsets_(offsets, offsets + rows + 1) {
  const int64_t start = offsets[0];
  for (int64_t& offset : offsets_) offset -= start;
  size_t capacity = 16;
  while (capacity < size_t(rows) * 2) capacity *= 2;
  slots_.assign(capacity, Slot{0, -1});
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* const text = values_.data() + offsets_[size_t(row)];
    const size_t size = size_t(offsets_[size_t(row) + 1] - offsets_[size_t(row)]);
    const uint64_t hash = fingerprint64(text, size);
    Slot& slot = slots_[place(hash, text, size)];
    if (slot.row < 0) slot = Slot{hash, row};
  }
}

size_t TextTable::place(uint64_t hash, const uint8_t* text, size_t size) const {
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.row < 0) return at;
    const size_t start = size_t(offsets_[size_t(slot.row)]), stop = size_t(offsets_[size_t(slot.row) + 1]);
    if (slot.hash == hash && stop - start == size && (!size || !std::memcmp(values_.data() + start, text, size))) return at;
  }
}

void TextTable::find(const uint8_t* values, const int64_t* offsets, int64_t rows, const uint64_t* hashes, int64_t* out) const {
  for (int64_t i = 0; i < rows; ++i) {
    out[i] = slots_[place(hashes[i], values + offsets[i], size_t(offsets[i + 1] - offsets[i]))].row;
  }
}

void TextTable::ids(const uint8_t* values, const int64_t* offsets, int64_t rows, int64_t start, int64_t unknown,
                    uint64_t buckets, int64_t* out) const {
  constexpr int64_t kTogether = 16;  // so that their slots come from memory while others are hashed
  const Modulo modulo(buckets ? buckets : 1);
  const size_t mask = slots_.size() - 1;
  uint64_t hashes[kTogether];
  for (int64_t first = 0; first < rows; first += kTogether) {
    const int64_t count = std::min(kTogether, rows - first);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t* const cut = offsets + first + i;
      hashes[i] = fingerprint64(values + cut[0], size_t(cut[1] - cut[0]));
      __builtin_prefetch(&slots_[hashes[i] & mask]);
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t* const cut = offsets + first + i;
      const int64_t row = slots_[place(hashes[i], values + cut[0], size_t(cut[1] - cut[0]))].row;
      out[first + i] = row >= 0 ? start + row : buckets ? unknown + int64_t(modulo(hashes[i])) : unknown;
    }
  }
}

namespace {

constexpr size_t kInSlot = 15;  // bytes of a text that a slot holds inline, besides their number
constexpr size_t kLoaded = 16;
constexpr uint64_t kAny[4] = {~uint64_t(0), ~uint64_t(0), 0, 0};

}  // namespace

TextCounter::TextCounter() : offsets_{0}, slots_(1024, Slot{}) {}

// Bytes may be read up to `limit`.
TextCounter::Key TextCounter::key_of(const uint8_t* text, size_t size, const uint8_t* limit) {
  uint64_t bytes[2] = {0, 0};
  if (size > kInSlot) {
    const uint64_t hash = fingerprint64(text, size);
    return {hash, uint64_t(kInSlot + 2) << 56, hash};
  }
  if (size_t(limit - text) >= kLoaded) {
    uint64_t mask[2];
    std::memcpy(bytes, text, kLoaded);
    std::memcpy(mask, reinterpret_cast<const uint8_t*>(kAny) + kLoaded - size, kLoaded);
    bytes[0] &= mask[0];
    bytes[1] &= mask[1];
  } else if (size) {
    std::memcpy(bytes, text, size);
  }
  const uint64_t high = bytes[1] | uint64_t(size + 1) << 56;
  const uint64_t mixed = (bytes[0] ^ right(high * k1, 23)) * k2;
  return {bytes[0], high, mixed ^ mixed >> 32};
}

void TextCounter::grow() {
  std::vector<Slot> larger(slots_.size() * 2, Slot{});
  const size_t mask = larger.size() - 1;
  const uint8_t* const limit = values_.data() + values_.size();
  for (const Slot& slot : slots_) {
    if (slot.empty()) continue;
    const size_t start = size_t(offsets_[size_t(slot.row)]), size = size_t(offsets_[size_t(slot.row) + 1]) - start;
    size_t at = key_of(values_.data() + start, size, limit).place & mask;
    while (!larger[at].empty()) at = (at + 1) & mask;
    larger[at] = slot;
  }
  slots_.swap(larger);
}

void TextCounter::count(const Key& key, const uint8_t* text, size_t size, int64_t times) {
  const size_t mask = slots_.size() - 1;
  size_t at = key.place & mask;
  for (; !slots_[at].empty(); at = (at + 1) & mask) {
    Slot& slot = slots_[at];
    if (slot.low != key.low || slot.high != key.high) continue;
    if (size > kInSlot) {
      const size_t start = size_t(offsets_[size_t(slot.row)]);
      if (size_t(offsets_[size_t(slot.row) + 1]) - start != size || std::memcmp(values_.data() + start, text, size)) continue;
    }
    slot.count += times;
    return;
  }
  const size_t row = offsets_.size() - 1;
  if (row * 2 >= slots_.size()) {
    grow();
    count(key, text, size, times);
    return;
  }
  values_.insert(values_.end(), text, text + size);
  offsets_.push_back(int64_t(values_.size()));
  slots_[at] = Slot{key.low, key.high, times, int64_t(row)};
}

void TextCounter::add(const uint8_t* values, const int64_t* offsets, int64_t rows, const int64_t* counts) {
  constexpr int64_t kTogether = 16;  // as for TextTable::ids
  const std::lock_guard<std::mutex> turn(turn_);
  const uint8_t* const limit = values + offsets[rows];
  Key keys[kTogether];
  for (int64_t first = 0; first < rows; first += kTogether) {
    const int64_t group = std::min(kTogether, rows - first);
    for (int64_t i = 0; i < group; ++i) {
      const int64_t* const cut = offsets + first + i;
      keys[i] = key_of(values + cut[0], size_t(cut[1] - cut[0]), limit);
      __builtin_prefetch(&slots_[keys[i].place & (slots_.size() - 1)]);
    }
    for (int64_t i = 0; i < group; ++i) {
      const int64_t* const cut = offsets + first + i;
      count(keys[i], values + cut[0], size_t(cut[1] - cut[0]), counts ? counts[first + i] : 1);
    }
  }
}

std::vector<int64_t> TextCounter::counts() const {
  std::vector<int64_t> made(size());
  for (const Slot& slot : slots_) {
    if (!slot.empty()) made[size_t(slot.row)] = slot.count;
  }
  return made;
}

std::vector<int64_t> TextCounter::most_frequent(size_t limit, int64_t least) const {
  struct Place {
    int64_t count;
    uint64_t head;  // the first bytes, as a number that compares as they do
    int64_t row;
  };
  std::vector<Place> places;
  for (const Slot& slot : slots_) {
    if (slot.empty() || slot.count < least) continue;
    const size_t start = size_t(offsets_[size_t(slot.row)]), size = size_t(offsets_[size_t(slot.row) + 1]) - start;
    uint64_t head = 0;
    for (size_t i = 0; i < 8; ++i) head = head << 8 | (i < size ? values_[start + i] : 0);
    places.push_back({slot.count, head, slot.row});
  }
  const auto before = [this](const Place& a, const Place& b) {
    if (a.count != b.count) return a.count > b.count;
    if (a.head != b.head) return a.head > b.head;
    const size_t first = size_t(offsets_[size_t(a.row)]), second = size_t(offsets_[size_t(b.row)]);
    const size_t size = size_t(offsets_[size_t(a.row) + 1]) - first, other = size_t(offsets_[size_t(b.row) + 1]) - second;
    const size_t common = std::min(size, other);
    const int differ = common ? std::memcmp(values_.data() + first, values_.data() + second, common) : 0;
    return differ ? differ > 0 : size > other;
  };
  if (limit < places.size()) {
    std::nth_element(places.begin(), places.begin() + long(limit), places.end(), before);
    places.resize(limit);
  }
  std::sort(places.begin(), places.end(), before);
  std::vector<int64_t> made(places.size());
  for (size_t i = 0; i < places.size(); ++i) made[i] = places[i].row;
  return made;
}

}  // namespace headrace
