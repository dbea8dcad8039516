// Token sequences put into rows of one length.
#include <algorithm>
#include <cstring>

#include "kernels.h"

namespace headrace {

int64_t first_fit(const int64_t* sizes, int64_t count, int64_t room, int64_t* bins) {
  int64_t leaves = 1;
  while (leaves < count) leaves *= 2;
  std::vector<int64_t> most(size_t(2 * leaves), room);  // of each node of a tree over bins, the most room of one below it
  int64_t used = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t node = 1;
    while (node < leaves) node = 2 * node + (most[size_t(2 * node)] < sizes[i]);
    const int64_t bin = node - leaves;
    bins[i] = bin;
    used = std::max(used, bin + 1);
    most[size_t(node)] -= sizes[i];
    for (node /= 2; node > 0; node /= 2) most[size_t(node)] = std::max(most[size_t(2 * node)], most[size_t(2 * node + 1)]);
  }
  return used;
}

void pack_rows(const uint8_t* values, size_t bytes, const PackPiece* pieces, int64_t count, const uint8_t* separator,
               int64_t cells, const PackedRows& out) {
  const auto pad = [&](int64_t from, int64_t to) {
    if (from >= to) return;
    std::memset(out.tokens + size_t(from) * bytes, 0, size_t(to - from) * bytes);
    std::fill(out.segments + from, out.segments + to, 0);
    std::fill(out.positions + from, out.positions + to, 0);
    if (out.documents) std::fill(out.documents + from, out.documents + to, -1);
  };
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    const PackPiece& piece = pieces[i];
    pad(at, piece.cell);
    at = piece.cell;
    std::memcpy(out.tokens + size_t(at) * bytes, values + size_t(piece.start) * bytes, size_t(piece.tokens) * bytes);
    if (piece.whole > piece.tokens) std::memcpy(out.tokens + size_t(at + piece.tokens) * bytes, separator, bytes);
    std::fill(out.segments + at, out.segments + at + piece.whole, int32_t(piece.segment));
    for (int64_t j = 0; j < piece.whole; ++j) out.positions[at + j] = int32_t(j);
    if (out.documents) std::fill(out.documents + at, out.documents + at + piece.whole, piece.document);
    at += piece.whole;
  }
  pad(at, cells);
}

}  // namespace headrace
