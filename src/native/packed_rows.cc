#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "kernels.h"
#include "row_copy.h"
#include "team.h"

namespace headrace {
namespace {

constexpr int64_t kTileRows = 64;  // for all columns, both sides of the copy stay in the first-level cache
constexpr size_t kLine = 64;       // bytes of a cache line

#if defined(__SSE2__)
__m128i load(const uint8_t* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
void store(uint8_t* to, __m128i values) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), values); }

// Value j of in[i] becomes value i of out[j]: two by two values of eight bytes, or four by four of four.
void transpose(const uint8_t* const* in, uint8_t* const* out, std::integral_constant<size_t, 8>) {
  const __m128i a = load(in[0]), b = load(in[1]);
  store(out[0], _mm_unpacklo_epi64(a, b));
  store(out[1], _mm_unpackhi_epi64(a, b));
}

void transpose(const uint8_t* const* in, uint8_t* const* out, std::integral_constant<size_t, 4>) {
  const __m128i a = load(in[0]), b = load(in[1]), c = load(in[2]), d = load(in[3]);
  const __m128i ab = _mm_unpacklo_epi32(a, b), cd = _mm_unpacklo_epi32(c, d);
  store(out[0], _mm_unpacklo_epi64(ab, cd));
  store(out[1], _mm_unpackhi_epi64(ab, cd));
  const __m128i later_ab = _mm_unpackhi_epi32(a, b), later_cd = _mm_unpackhi_epi32(c, d);
  store(out[2], _mm_unpacklo_epi64(later_ab, later_cd));
  store(out[3], _mm_unpackhi_epi64(later_ab, later_cd));
}
#endif

// Rows of some columns, from number `first` on, and packed rows: the types say which is written.
template <typename Byte, typename RowByte>
struct Tile {
  const ColumnBytes<Byte>* columns;
  int64_t first, rows;
  RowByte* packed;
  size_t row_bytes;

  Byte* value(size_t column, int64_t row) const {
    return columns[column].data + size_t(first + row) * columns[column].bytes;
  }

  // Copy as many columns at once as values fill a register, and as many rows; return how many rows are done.
  template <size_t kBytes>
  int64_t copy_squares(size_t column, size_t place) const {
    int64_t row = 0;
#if defined(__SSE2__)
    constexpr size_t kSide = 16 / kBytes;
    const size_t step = row_bytes;  // a local copy: bytes that are written might alias anything
    Byte* values[kSide];
    RowByte* lines[kSide];
    for (size_t i = 0; i < kSide; ++i) {
      values[i] = value(column + i, 0);
      lines[i] = packed + i * step + place;
    }
    for (const int64_t stop = rows / int64_t(kSide) * int64_t(kSide); row < stop; row += int64_t(kSide)) {
      if constexpr (std::is_const_v<Byte>) {
        transpose(values, lines, std::integral_constant<size_t, kBytes>());
      } else {
        transpose(lines, values, std::integral_constant<size_t, kBytes>());
      }
      for (size_t i = 0; i < kSide; ++i) {
        values[i] += 16;
        lines[i] += kSide * step;
      }
    }
#endif
    return row;
  }

  void copy_column(size_t column, int64_t row, size_t place) const {
    Byte* const data = value(column, row);
    RowByte* const lines = packed + size_t(row) * row_bytes + place;
    with_bytes(columns[column].bytes, [=, step = row_bytes, left = rows - row](auto bytes) {
      for (int64_t i = 0; i < left; ++i) {
        if constexpr (std::is_const_v<Byte>) {
          std::memcpy(lines + size_t(i) * step, data + size_t(i) * bytes, bytes);
        } else {
          std::memcpy(data + size_t(i) * bytes, lines + size_t(i) * step, bytes);
        }
      }
    });
  }

  void copy(size_t count) const {
    size_t place = 0;
    for (size_t column = 0; column < count;) {
      const size_t bytes = columns[column].bytes, side = bytes == 8 || bytes == 4 ? 16 / bytes : 1;
      size_t alike = 1;
      while (alike < side && column + alike < count && columns[column + alike].bytes == bytes) ++alike;
      int64_t done = 0;
      if (side > 1 && alike == side) done = bytes == 8 ? copy_squares<8>(column, place) : copy_squares<4>(column, place);
      for (; alike > 0; --alike, ++column, place += bytes) {
        if (bytes) copy_column(column, done, place);
      }
    }
  }
};

// Prefetch the values of the next but one tile: hardware cannot prefetch this number of streams. Inlined, because GCC
// deletes calls of a function that only prefetches.
template <typename Byte>
[[gnu::always_inline]] inline void prefetch(const std::vector<ColumnBytes<Byte>>& columns, int64_t first) {
  for (const auto& column : columns) {
    const uint8_t* const data = column.data + size_t(first) * column.bytes;
    for (size_t at = 0; at < size_t(kTileRows) * column.bytes; at += kLine) {
      __builtin_prefetch(data + at, std::is_const_v<Byte> ? 0 : 1);
    }
  }
}

template <typename Byte, typename RowByte>
void copy_tiles(const std::vector<ColumnBytes<Byte>>& columns, int64_t first, int64_t count, RowByte* packed,
                size_t row_bytes) {
  in_pieces(count, grain_of(count, count * int64_t(row_bytes)), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row += kTileRows) {
      const int64_t rows = std::min(kTileRows, end - row), soon = first + row + 2 * kTileRows;
      if (soon + kTileRows <= columns[0].rows) prefetch(columns, soon);
      Tile<Byte, RowByte>{columns.data(), first + row, rows, packed + size_t(row) * row_bytes, row_bytes}.copy(
          columns.size());
    }
  });
}

constexpr size_t kTileBytes = 32 << 10;  // of packed rows on their way to the columns
constexpr int64_t kRowsAhead = 16;       // prefetch distance in rows

// Inlined, because GCC deletes calls of a function that only prefetches.
[[gnu::always_inline]] inline void prefetch_row(const uint8_t* row, size_t row_bytes) {
  for (size_t at = 0; at < std::min(row_bytes, 8 * kLine); at += kLine) __builtin_prefetch(row + at);
}

// Copies rows `begin` to `end - 1` one by one: the values of one column, or rows that are larger than a tile.
void gather_rows(const uint8_t* rows, size_t row_bytes, const int64_t* numbers, int64_t begin, int64_t end,
                 const OutColumns& columns) {
  for (int64_t i = begin; i < end; ++i) {
    if (i + kRowsAhead < end) prefetch_row(rows + size_t(numbers[i + kRowsAhead]) * row_bytes, row_bytes);
    const uint8_t* row = rows + size_t(numbers[i]) * row_bytes;
    for (const auto& column : columns) {
      std::memcpy(column.data + size_t(i) * column.bytes, row, column.bytes);
      row += column.bytes;
    }
  }
}

void gather_tiles(const uint8_t* rows, size_t row_bytes, const int64_t* numbers, int64_t begin, int64_t end,
                  const OutColumns& columns) {
  alignas(kLine) uint8_t packed[kTileBytes];
  const int64_t most = std::min(kTileRows, int64_t(kTileBytes / row_bytes));
  for (int64_t first = begin; first < end; first += most) {
    const int64_t count = std::min(most, end - first);
    for (int64_t i = first; i < first + count; ++i) {
      if (i + kRowsAhead < end) prefetch_row(rows + size_t(numbers[i + kRowsAhead]) * row_bytes, row_bytes);
      std::memcpy(packed + size_t(i - first) * row_bytes, rows + size_t(numbers[i]) * row_bytes, row_bytes);
    }
    Tile<uint8_t, const uint8_t>{columns.data(), first, count, packed, row_bytes}.copy(columns.size());
  }
}

}  // namespace

void pack_columns(const InColumns& columns, int64_t first, int64_t count, size_t row_bytes, uint8_t* rows) {
  copy_tiles(columns, first, count, rows, row_bytes);
}

void unpack_columns(const uint8_t* rows, size_t row_bytes, int64_t first, int64_t count, const OutColumns& columns) {
  copy_tiles(columns, first, count, rows, row_bytes);
}

void gather_columns(const uint8_t* rows, size_t row_bytes, const int64_t* numbers, int64_t count, const OutColumns& columns) {
  if (row_bytes == 0) return;
  const auto gather = columns.size() == 1 || row_bytes > kTileBytes ? gather_rows : gather_tiles;
  in_pieces(count, grain_of(count, count * int64_t(row_bytes)),
            [&](int64_t begin, int64_t end) { gather(rows, row_bytes, numbers, begin, end, columns); });
}

}  // namespace headrace
