// Token sequences put into rows of one length.
#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "kernels.h"

namespace headrace {

int64_t first_fit(const int64_t* sizes, int64_t count, int64_t room, int64_t most_items, int64_t* bins) {
  int64_t leaves = 1;
  while (leaves < count) leaves *= 2;
  std::vector<int64_t> most(size_t(2 * leaves), room);  // of each node of a tree over bins, the most room of one below it
  std::vector<int64_t> items(size_t(leaves), 0);
  int64_t used = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t node = 1;
    while (node < leaves) node = 2 * node + (most[size_t(2 * node)] < sizes[i]);
    const int64_t bin = node - leaves;
    bins[i] = bin;
    used = std::max(used, bin + 1);
    most[size_t(node)] -= sizes[i];
    if (++items[size_t(bin)] == most_items) most[size_t(node)] = -1;  // it takes no more
    for (node /= 2; node > 0; node /= 2) most[size_t(node)] = std::max(most[size_t(2 * node)], most[size_t(2 * node + 1)]);
  }
  return used;
}

int64_t best_fit(const int64_t* sizes, int64_t count, int64_t room, int64_t most_items, int64_t* bins) {
  std::set<std::pair<int64_t, int64_t>> open;  // room that is left, and the bin
  std::vector<int64_t> items;
  for (int64_t i = 0; i < count; ++i) {
    auto found = open.lower_bound({sizes[i], -1});
    int64_t left = room, bin = int64_t(items.size());
    if (found != open.end()) {
      left = found->first;
      bin = found->second;
      open.erase(found);
    } else {
      items.push_back(0);
    }
    bins[i] = bin;
    if (++items[size_t(bin)] != most_items) open.insert({left - sizes[i], bin});
  }
  return int64_t(items.size());
}

int64_t fit_several(const int64_t* sizes, int64_t count, const int64_t* rooms, int64_t dims, int64_t most_items, bool best,
                    int64_t* bins) {
  std::vector<int64_t> left, items;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t* size = sizes + i * dims;
    int64_t chosen = int64_t(items.size());
    double least = 0;
    for (int64_t bin = 0; bin < int64_t(items.size()); ++bin) {
      const int64_t* room = left.data() + bin * dims;
      bool fits = items[size_t(bin)] != most_items;
      for (int64_t d = 0; fits && d < dims; ++d) fits = size[d] <= room[d];
      if (!fits) continue;
      double share = 0;
      for (int64_t d = 0; d < dims; ++d) share += double(room[d]) / double(rooms[d]);
      if (chosen == int64_t(items.size()) || share < least) {
        chosen = bin;
        least = share;
      }
      if (!best) break;
    }
    if (chosen == int64_t(items.size())) {
      items.push_back(0);
      left.insert(left.end(), rooms, rooms + dims);
    }
    bins[i] = chosen;
    ++items[size_t(chosen)];
    for (int64_t d = 0; d < dims; ++d) left[size_t(chosen * dims + d)] -= size[d];
  }
  return int64_t(items.size());
}

void pack_field(const uint8_t* values, size_t bytes, const PackPiece* pieces, int64_t count, const uint8_t* separator,
                const uint8_t* padding, int64_t cells, uint8_t* out) {
  const bool zero = std::all_of(padding, padding + bytes, [](uint8_t byte) { return byte == 0; });
  const auto pad = [&](int64_t from, int64_t to) {
    if (from >= to) return;
    if (zero) {
      std::memset(out + size_t(from) * bytes, 0, size_t(to - from) * bytes);
      return;
    }
    for (int64_t cell = from; cell < to; ++cell) std::memcpy(out + size_t(cell) * bytes, padding, bytes);
  };
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    const PackPiece& piece = pieces[i];
    pad(at, piece.cell);
    at = piece.cell;
    std::memcpy(out + size_t(at) * bytes, values + size_t(piece.start) * bytes, size_t(piece.tokens) * bytes);
    if (piece.whole > piece.tokens) std::memcpy(out + size_t(at + piece.tokens) * bytes, separator, bytes);
    at += piece.whole;
  }
  pad(at, cells);
}

void pack_places(const PackPiece* pieces, int64_t count, int64_t cells, const PackedPlaces& out) {
  const auto pad = [&](int64_t from, int64_t to) {
    if (from >= to) return;
    std::fill(out.segments + from, out.segments + to, 0);
    if (out.positions) std::fill(out.positions + from, out.positions + to, 0);
    if (out.documents) std::fill(out.documents + from, out.documents + to, -1);
  };
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    const PackPiece& piece = pieces[i];
    pad(at, piece.cell);
    at = piece.cell;
    std::fill(out.segments + at, out.segments + at + piece.whole, int32_t(piece.segment));
    if (out.positions) {
      for (int64_t j = 0; j < piece.whole; ++j) out.positions[at + j] = int32_t(j);
    }
    if (out.documents) std::fill(out.documents + at, out.documents + at + piece.whole, piece.document);
    at += piece.whole;
  }
  pad(at, cells);
}

}  // namespace headrace
