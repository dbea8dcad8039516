#include "kernels.h"
#include "python.h"

namespace headrace::python {
namespace {

using Ints32 = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstTable = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Pieces are within their sequences and contiguous in the rows, and none runs over the end.
void require_pieces(const headrace::PackPiece* pieces, size_t count, size_t values, int64_t cells) {
  int64_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto& piece = pieces[i];
    require(piece.start >= 0 && piece.tokens >= 0 && size_t(piece.start) <= values &&
                size_t(piece.tokens) <= values - size_t(piece.start),
            "a piece is outside of the values");
    require(piece.whole >= piece.tokens && piece.whole <= piece.tokens + 1, "a piece has at most one separator");
    require(piece.cell >= at && piece.whole <= cells && piece.cell <= cells - piece.whole, "pieces overlap");
    require(piece.segment > 0 && piece.segment <= INT32_MAX, "segment out of range");
    at = piece.cell + piece.whole;
  }
}

void require_sizes(const ConstInts& sizes, int64_t room, const Ints& bins) {
  require(bins.shape(0) == sizes.shape(0), "as many bins as sizes");
  for (size_t i = 0; i < sizes.shape(0); ++i) {
    require(sizes.data()[i] >= 0 && sizes.data()[i] <= room, "a size does not fit into any bin");
  }
}

const headrace::PackPiece* checked_pieces(const ConstTable& pieces, size_t values, int64_t cells) {
  static_assert(sizeof(headrace::PackPiece) == 6 * sizeof(int64_t));
  require(pieces.shape(1) == 6, "a piece has six numbers");
  const auto* all = reinterpret_cast<const headrace::PackPiece*>(pieces.data());
  require_pieces(all, pieces.shape(0), values, cells);
  return all;
}

}  // namespace

void bind_pack(nb::module_& m) {
  m.def(
      "first_fit",
      [](ConstInts sizes, int64_t room, int64_t most_items, Ints bins) {
        require_sizes(sizes, room, bins);
        return headrace::first_fit(sizes.data(), int64_t(sizes.shape(0)), room, most_items, bins.data());
      },
      "sizes"_a, "room"_a, "most_items"_a, "bins"_a.noconvert(), Released());
  m.def(
      "best_fit",
      [](ConstInts sizes, int64_t room, int64_t most_items, Ints bins) {
        require_sizes(sizes, room, bins);
        return headrace::best_fit(sizes.data(), int64_t(sizes.shape(0)), room, most_items, bins.data());
      },
      "sizes"_a, "room"_a, "most_items"_a, "bins"_a.noconvert(), Released());
  m.def(
      "fit_several",
      [](ConstTable sizes, ConstInts rooms, int64_t most_items, bool best, Ints bins) {
        const size_t dims = sizes.shape(1);
        require(bins.shape(0) == sizes.shape(0) && rooms.shape(0) == dims && dims > 0, "as many bins as sizes");
        for (size_t i = 0; i < sizes.shape(0) * dims; ++i) {
          const int64_t size = sizes.data()[i], room = rooms.data()[i % dims];
          require(room > 0 && size >= 0 && size <= room, "a size does not fit into any bin");
        }
        return headrace::fit_several(sizes.data(), int64_t(sizes.shape(0)), rooms.data(), int64_t(dims), most_items, best,
                                     bins.data());
      },
      "sizes"_a, "rooms"_a, "most_items"_a, "best"_a, "bins"_a.noconvert(), Released());
  m.def(
      "pack_field",
      [](ConstRows values, ConstTable pieces, ConstBytes separator, ConstBytes padding, Rows out) {
        const size_t bytes = values.shape(1), cells = out.shape(0);
        const auto* all = checked_pieces(pieces, values.shape(0), int64_t(cells));
        require(out.shape(1) == bytes && padding.shape(0) == bytes, "out does not fit");
        for (size_t i = 0; i < pieces.shape(0); ++i) {
          require(all[i].whole == all[i].tokens || separator.shape(0) == bytes, "there is no separator");
        }
        headrace::pack_field(values.data(), bytes, all, int64_t(pieces.shape(0)), separator.data(), padding.data(),
                             int64_t(cells), out.data());
      },
      "values"_a, "pieces"_a, "separator"_a, "padding"_a, "out"_a.noconvert(), Released());
  m.def(
      "pack_places",
      [](ConstTable pieces, Ints32 segments, Ints32 positions, Ints documents) {
        const size_t cells = segments.shape(0);
        const auto* all = checked_pieces(pieces, SIZE_MAX, int64_t(cells));
        require(positions.shape(0) == 0 || positions.shape(0) == cells, "out does not fit");
        require(documents.shape(0) == 0 || documents.shape(0) == cells, "out does not fit");
        const headrace::PackedPlaces out{segments.data(), positions.shape(0) ? positions.data() : nullptr,
                                         documents.shape(0) ? documents.data() : nullptr};
        headrace::pack_places(all, int64_t(pieces.shape(0)), int64_t(cells), out);
      },
      "pieces"_a, "segments"_a.noconvert(), "positions"_a.noconvert(), "documents"_a.noconvert(), Released());
}

}  // namespace headrace::python
