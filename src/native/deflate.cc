// One pass: greedy matches against the last place of the same four bytes, then Huffman codes for each block. Data without
// repetitions is passed over in growing steps, since its literals are all that can be coded.
#include "deflate.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "inflate.h"

namespace headrace {
namespace {

constexpr size_t kTokensPerBlock = 1 << 15;
constexpr size_t kWindow = 1 << 15;
constexpr size_t kLongestMatch = 258;
constexpr size_t kShortestMatch = 4;
constexpr uint32_t kMatch = 1u << 31;  // a token: a byte, or kMatch | length << 16 | (distance - 1)
constexpr size_t kLiterals = 286, kDistances = 30, kLengthCodes = 19;
constexpr size_t kStoredBlock = 65535;

constexpr std::array<uint16_t, 29> kLengthBase = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                                  31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::array<uint8_t, 29> kLengthBits = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::array<uint16_t, 30> kDistanceBase = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
                                                    193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr std::array<uint8_t, 30> kDistanceBits = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                                   6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
constexpr std::array<uint8_t, kLengthCodes> kCodeOrder = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

constexpr std::array<uint8_t, 256> length_codes() {
  std::array<uint8_t, 256> made{};
  for (size_t length = 3; length <= 258; ++length) {
    size_t code = 28;
    while (kLengthBase[code] > length) --code;
    made[length - 3] = uint8_t(code);
  }
  return made;
}
constexpr auto kLengthCode = length_codes();

// The code of a distance: two for each power of two.
inline size_t distance_code(uint32_t below) {  // the distance less 1
  if (below < 2) return below;
  const uint32_t bits = 31 - uint32_t(__builtin_clz(below));
  return 2 * bits + (below >> (bits - 1) & 1);
}

inline uint32_t word_at(const uint8_t* at) {
  uint32_t word;
  std::memcpy(&word, at, 4);
  return word;
}

// How many bytes are the same from `a` and `b` on, up to `most`.
inline size_t common(const uint8_t* a, const uint8_t* b, size_t most) {
  size_t same = 0;
  for (; same + 8 <= most; same += 8) {
    uint64_t x, y;
    std::memcpy(&x, a + same, 8);
    std::memcpy(&y, b + same, 8);
    if (x != y) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
      return same + size_t(__builtin_ctzll(x ^ y)) / 8;
#else
      break;
#endif
    }
  }
  while (same < most && a[same] == b[same]) ++same;
  return same;
}

struct Code {
  std::array<uint16_t, 288> bits{};  // as they are written, the first bit lowest
  std::array<uint8_t, 288> lengths{};
};

// Lengths of a prefix code for symbols of these frequencies, none longer than `longest`. At least two have one.
void find_lengths(const uint32_t* counts, size_t symbols, size_t longest, uint8_t* lengths) {
  std::array<uint32_t, 288> order;  // count << 9 | symbol: a block has fewer than 2^17 tokens
  size_t used = 0;
  for (size_t i = 0; i < symbols; ++i) {
    lengths[i] = 0;
    order[used] = counts[i] << 9 | uint32_t(i);
    used += counts[i] != 0;
  }
  for (size_t i = 0; used < 2; ++i) {  // a code of one symbol is not complete
    if (!counts[i]) order[used++] = 1u << 9 | uint32_t(i);
  }
  std::sort(order.begin(), order.begin() + int64_t(used));
  // Two queues: symbols in order, and pairs in the order in which they are made, which is that of their sums.
  std::array<uint32_t, 288> sums{};
  std::array<uint16_t, 576> parent{};
  size_t symbol = 0, pair = 0;
  for (size_t made = 0; made + 1 < used; ++made) {
    uint32_t sum = 0;
    for (int child = 0; child < 2; ++child) {
      const bool takes_symbol = symbol < used && (pair >= made || order[symbol] >> 9 <= sums[pair]);
      if (takes_symbol) {
        sum += order[symbol] >> 9;
        parent[symbol++] = uint16_t(used + made);
      } else {
        sum += sums[pair];
        parent[used + pair++] = uint16_t(used + made);
      }
    }
    sums[made] = sum;
  }
  std::array<uint32_t, 64> of_length{};
  std::array<uint8_t, 576> depth{};
  const size_t root = 2 * used - 2;
  for (size_t node = root; node-- > 0;) {
    depth[node] = uint8_t(std::min<size_t>(63, size_t(depth[parent[node]]) + 1));
    if (node < used) ++of_length[depth[node]];
  }
  // Codes that are too long become as long as allowed; shorter ones make room for them until the code is complete.
  for (size_t i = longest + 1; i < of_length.size(); ++i) of_length[longest] += of_length[i], of_length[i] = 0;
  uint64_t total = 0;
  for (size_t i = 1; i <= longest; ++i) total += uint64_t(of_length[i]) << (longest - i);
  for (; total > uint64_t(1) << longest; --total) {
    --of_length[longest];
    size_t i = longest - 1;
    while (!of_length[i]) --i;
    --of_length[i];
    of_length[i + 1] += 2;
  }
  size_t next = 0;
  for (size_t length = longest; length > 0; --length) {
    for (uint32_t i = 0; i < of_length[length]; ++i) lengths[order[next++] & 0x1FF] = uint8_t(length);
  }
}

constexpr std::array<uint8_t, 256> reversed_bytes() {
  std::array<uint8_t, 256> made{};
  for (uint32_t i = 0; i < 256; ++i) {
    for (uint32_t bit = 0; bit < 8; ++bit) made[i] = uint8_t(made[i] | (i >> bit & 1) << (7 - bit));
  }
  return made;
}
constexpr auto kReversed = reversed_bytes();

void assign_bits(size_t symbols, Code& code) {
  std::array<uint32_t, 17> of_length{}, next{};
  for (size_t i = 0; i < symbols; ++i) ++of_length[code.lengths[i]];
  of_length[0] = 0;
  for (size_t i = 1; i < 16; ++i) next[i + 1] = (next[i] + of_length[i]) << 1;
  for (size_t i = 0; i < symbols; ++i) {
    const uint32_t length = code.lengths[i];
    const uint32_t value = next[length]++ << (16 - length);
    code.bits[i] = uint16_t(kReversed[value >> 8 & 0xFF] | kReversed[value & 0xFF] << 8);
  }
}

Code fixed_literals() {
  Code made;
  for (size_t i = 0; i < 288; ++i) made.lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  assign_bits(288, made);
  return made;
}

Code fixed_distances() {
  Code made;
  for (size_t i = 0; i < 30; ++i) made.lengths[i] = 5;
  assign_bits(30, made);
  return made;
}

// Bits into memory that has room for them.
class BitWriter {
 public:
  explicit BitWriter(Growing<uint8_t>& out) : out_(out) {}

  void reserve(size_t bytes) {
    at_ = out_.extend(bytes + 8);
    begin_ = at_;
    out_.shrink(out_.size() - bytes - 8);
  }
  void put(uint64_t value, uint32_t count) {  // at most 56 bits
    held_ |= value << count_;
    count_ += count;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    std::memcpy(at_, &held_, 8);
#else
    for (size_t i = 0; i < 8; ++i) at_[i] = uint8_t(held_ >> (8 * i));
#endif
    at_ += count_ / 8;
    held_ >>= count_ & ~7u;  // which is 56 at most
    count_ &= 7;
  }
  void align() {
    if (count_) put(0, 8 - count_);
  }
  void copy(const uint8_t* data, size_t size) {
    std::memcpy(at_, data, size);
    at_ += size;
  }
  void finish() { out_.extend(size_t(at_ - begin_)); }  // what was written is there already

 private:
  Growing<uint8_t>& out_;
  uint8_t *at_ = nullptr, *begin_ = nullptr;
  uint64_t held_ = 0;
  uint32_t count_ = 0;
};

// The lengths of both codes, as the header of a block says them.
struct Lengths {
  std::array<uint8_t, kLiterals + kDistances> symbols{}, extras{};
  size_t count = 0, literals = 0, distances = 0, codes = 0;
  Code code;
  uint64_t bits = 0;

  Lengths(const Code& literal, const Code& distance) {
    literals = kLiterals, distances = kDistances;
    while (literals > 257 && !literal.lengths[literals - 1]) --literals;
    while (distances > 1 && !distance.lengths[distances - 1]) --distances;
    std::array<uint8_t, kLiterals + kDistances> all{};
    std::copy_n(literal.lengths.begin(), literals, all.begin());
    std::copy_n(distance.lengths.begin(), distances, all.begin() + int64_t(literals));
    std::array<uint32_t, kLengthCodes> counts{};
    const size_t total = literals + distances;
    for (size_t at = 0; at < total;) {
      size_t run = 1;
      while (at + run < total && all[at + run] == all[at]) ++run;
      if (all[at] == 0 && run >= 3) {
        run = std::min<size_t>(run, 138);
        add(run <= 10 ? 17 : 18, uint8_t(run <= 10 ? run - 3 : run - 11), counts);
      } else if (at > 0 && all[at] == all[at - 1] && run >= 3) {
        run = std::min<size_t>(run, 6);
        add(16, uint8_t(run - 3), counts);
      } else {
        run = 1;
        add(all[at], 0, counts);
      }
      at += run;
    }
    find_lengths(counts.data(), kLengthCodes, 7, code.lengths.data());
    assign_bits(kLengthCodes, code);
    codes = kLengthCodes;
    while (codes > 4 && !code.lengths[kCodeOrder[codes - 1]]) --codes;
    bits = 14 + 3 * codes;
    for (size_t i = 0; i < count; ++i) bits += code.lengths[symbols[i]] + extra_bits(symbols[i]);
  }

  void write(BitWriter& out) const {
    out.put(literals - 257, 5);
    out.put(distances - 1, 5);
    out.put(codes - 4, 4);
    for (size_t i = 0; i < codes; ++i) out.put(code.lengths[kCodeOrder[i]], 3);
    for (size_t i = 0; i < count; ++i) {
      out.put(code.bits[symbols[i]], code.lengths[symbols[i]]);
      if (extra_bits(symbols[i])) out.put(extras[i], extra_bits(symbols[i]));
    }
  }

 private:
  static uint32_t extra_bits(uint8_t symbol) { return symbol == 16 ? 2 : symbol == 17 ? 3 : symbol == 18 ? 7 : 0; }
  void add(uint8_t symbol, uint8_t extra, std::array<uint32_t, kLengthCodes>& counts) {
    symbols[count] = symbol, extras[count++] = extra;
    ++counts[symbol];
  }
};

struct Counts {
  std::array<uint32_t, 288> literals{};
  std::array<uint32_t, 32> distances{};
};

Counts count_tokens(const uint32_t* tokens, size_t count) {
  Counts made;
  made.literals[256] = 1;
  for (size_t i = 0; i < count; ++i) {
    if (tokens[i] & kMatch) {
      ++made.literals[257 + kLengthCode[(tokens[i] >> 16 & 0x1FF) - 3]];
      ++made.distances[distance_code(tokens[i] & 0xFFFF)];
    } else {
      ++made.literals[tokens[i]];
    }
  }
  return made;
}

uint64_t bits_of(const Counts& counts, const Code& literals, const Code& distances) {
  uint64_t bits = 3;
  for (size_t i = 0; i < kLiterals; ++i) {
    bits += uint64_t(counts.literals[i]) * (literals.lengths[i] + (i > 256 ? kLengthBits[i - 257] : 0));
  }
  for (size_t i = 0; i < kDistances; ++i) bits += uint64_t(counts.distances[i]) * (distances.lengths[i] + kDistanceBits[i]);
  return bits;
}

void write_tokens(const uint32_t* tokens, size_t count, const Code& literals, const Code& distances, BitWriter& out) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t token = tokens[i];
    if (!(token & kMatch)) {
      out.put(literals.bits[token], literals.lengths[token]);
      continue;
    }
    const uint32_t length = token >> 16 & 0x1FF, below = token & 0xFFFF;
    const size_t long_code = kLengthCode[length - 3], far_code = distance_code(below);
    uint64_t value = literals.bits[257 + long_code];
    uint32_t bits = literals.lengths[257 + long_code];
    value |= uint64_t(length - kLengthBase[long_code]) << bits;
    bits += kLengthBits[long_code];
    value |= uint64_t(distances.bits[far_code]) << bits;
    bits += distances.lengths[far_code];
    value |= uint64_t(below + 1 - kDistanceBase[far_code]) << bits;
    out.put(value, bits + kDistanceBits[far_code]);
  }
  out.put(literals.bits[256], literals.lengths[256]);
}

void write_stored(const uint8_t* data, size_t size, bool last, BitWriter& out) {
  do {
    const size_t piece = std::min(size, kStoredBlock);
    out.put(uint64_t(last && piece == size), 3);
    out.align();
    out.put(piece | uint64_t(~piece & 0xFFFF) << 16, 32);
    out.copy(data, piece);
    data += piece, size -= piece;
  } while (size > 0);
}

// One block of tokens, which stand for these bytes, by whichever code takes fewest bits.
void write_block(const std::vector<uint32_t>& tokens, const uint8_t* data, size_t size, bool last, BitWriter& out) {
  static const Code kFixedLiterals = fixed_literals(), kFixedDistances = fixed_distances();
  const Counts counts = count_tokens(tokens.data(), tokens.size());
  Code literals, distances;
  find_lengths(counts.literals.data(), kLiterals, 15, literals.lengths.data());
  find_lengths(counts.distances.data(), kDistances, 15, distances.lengths.data());
  const Lengths lengths(literals, distances);
  const uint64_t own = bits_of(counts, literals, distances) + lengths.bits;
  const uint64_t fixed = bits_of(counts, kFixedLiterals, kFixedDistances);
  const uint64_t stored = 8 * uint64_t(size + 5 * (size / kStoredBlock + 1));
  out.reserve(size_t(std::min({own, fixed, stored}) / 8 + 64));
  if (stored < std::min(own, fixed)) {
    write_stored(data, size, last, out);
  } else if (fixed <= own) {
    out.put(uint64_t(last) | 1 << 1, 3);
    write_tokens(tokens.data(), tokens.size(), kFixedLiterals, kFixedDistances, out);
  } else {
    assign_bits(kLiterals, literals);
    assign_bits(kDistances, distances);
    out.put(uint64_t(last) | 2 << 1, 3);
    lengths.write(out);
    write_tokens(tokens.data(), tokens.size(), literals, distances, out);
  }
  if (last) out.align();
  out.finish();
}

}  // namespace

void deflate_zlib(const uint8_t* data, size_t size, DeflateScratch& scratch, Growing<uint8_t>& out) {
  out.append("\x78\x5e", 2);
  const uint32_t hash_bits = size < 16384 ? 12 : 15;
  scratch.last_seen.assign(size_t(1) << hash_bits, 0);
  std::vector<uint32_t>& tokens = scratch.tokens;
  tokens.clear();
  BitWriter bits(out);
  size_t at = 0, begin = 0, missed = 0;
  const size_t ends = size < 8 ? 0 : size - 8;  // matches begin before this
  while (at < size) {
    const size_t steps = at < ends ? std::min<size_t>(1 + (missed >> 5), 16) : 1;
    if (at < ends) {
      const uint32_t word = word_at(data + at);
      uint32_t& slot = scratch.last_seen[word * 0x9E3779B1u >> (32 - hash_bits)];
      const size_t before = slot;
      slot = uint32_t(at + 1);
      if (before && at + 1 - before <= kWindow && word_at(data + before - 1) == word) {
        const size_t length = common(data + at, data + before - 1, std::min(size - at, kLongestMatch));
        tokens.push_back(kMatch | uint32_t(length) << 16 | uint32_t(at - before));
        const size_t next = at + length;
        if (next < ends) {  // the end of a match is where the next one may begin
          scratch.last_seen[word_at(data + next - 1) * 0x9E3779B1u >> (32 - hash_bits)] = uint32_t(next);
        }
        at = next;
        missed = 0;
        if (tokens.size() >= kTokensPerBlock && at < size) {
          write_block(tokens, data + begin, at - begin, false, bits);
          tokens.clear();
          begin = at;
        }
        continue;
      }
    }
    ++missed;
    for (size_t i = 0; i < steps && at < size; ++i) tokens.push_back(data[at++]);
    if (tokens.size() >= kTokensPerBlock && at < size) {
      write_block(tokens, data + begin, at - begin, false, bits);
      tokens.clear();
      begin = at;
    }
  }
  write_block(tokens, data + begin, size - begin, true, bits);
  const uint32_t sum = adler32(data, size);
  const uint8_t end[4] = {uint8_t(sum >> 24), uint8_t(sum >> 16), uint8_t(sum >> 8), uint8_t(sum)};
  out.append(end, 4);
}

}  // namespace headrace
