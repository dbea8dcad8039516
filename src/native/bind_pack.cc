#include "kernels.h"
#include "python.h"

namespace headrace::python {
namespace {

using Ints32 = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstTable = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Pieces lie in their sequences, one behind the other in the rows, and none runs over the end.
void require_pieces(const headrace::PackPiece* pieces, size_t count, size_t values, int64_t cells) {
  int64_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto& piece = pieces[i];
    require(piece.start >= 0 && piece.tokens >= 0 && size_t(piece.start) <= values &&
                size_t(piece.tokens) <= values - size_t(piece.start),
            "a piece lies outside of the values");
    require(piece.whole >= piece.tokens && piece.whole <= piece.tokens + 1, "a piece has at most one separator");
    require(piece.cell >= at && piece.whole <= cells && piece.cell <= cells - piece.whole, "pieces overlap");
    require(piece.segment > 0 && piece.segment <= INT32_MAX, "segment out of range");
    at = piece.cell + piece.whole;
  }
}

}  // namespace

void bind_pack(nb::module_& m) {
  m.def(
      "first_fit",
      [](ConstInts sizes, int64_t room, Ints bins) {
        require(bins.shape(0) == sizes.shape(0), "as many bins as sizes");
        for (size_t i = 0; i < sizes.shape(0); ++i) {
          require(sizes.data()[i] >= 0 && sizes.data()[i] <= room, "a size does not fit into any bin");
        }
        return headrace::first_fit(sizes.data(), int64_t(sizes.shape(0)), room, bins.data());
      },
      "sizes"_a, "room"_a, "bins"_a.noconvert(), Released());
  m.def(
      "pack_rows",
      [](ConstRows values, ConstTable pieces, ConstBytes separator, Rows tokens, Ints32 segments, Ints32 positions,
         Ints documents) {
        static_assert(sizeof(headrace::PackPiece) == 6 * sizeof(int64_t));
        const size_t bytes = values.shape(1), cells = tokens.shape(0);
        require(pieces.shape(1) == 6, "a piece has six numbers");
        require(tokens.shape(1) == bytes && segments.shape(0) == cells && positions.shape(0) == cells, "out does not fit");
        require(documents.shape(0) == 0 || documents.shape(0) == cells, "out does not fit");
        const auto* all = reinterpret_cast<const headrace::PackPiece*>(pieces.data());
        require_pieces(all, pieces.shape(0), values.shape(0), int64_t(cells));
        for (size_t i = 0; i < pieces.shape(0); ++i) {
          require(all[i].whole == all[i].tokens || separator.shape(0) == bytes, "there is no separator");
        }
        const headrace::PackedRows out{tokens.data(), segments.data(), positions.data(),
                                       documents.shape(0) ? documents.data() : nullptr};
        headrace::pack_rows(values.data(), bytes, all, int64_t(pieces.shape(0)), separator.data(), int64_t(cells), out);
      },
      "values"_a, "pieces"_a, "separator"_a, "tokens"_a.noconvert(), "segments"_a.noconvert(),
      "positions"_a.noconvert(), "documents"_a.noconvert(), Released());
}

}  // namespace headrace::python
