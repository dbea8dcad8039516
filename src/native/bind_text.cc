#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <climits>
#include <string>
#include <vector>

#include "python.h"
#include "text.h"

namespace headrace::python {
namespace {

using ByteTable = nb::ndarray<const uint16_t, nb::shape<256>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

headrace::TextRows text_rows(const ConstBytes& values, const ConstInts& offsets) {
  require_offsets(offsets, values.shape(0));
  return {values.data(), offsets.data(), int64_t(offsets.shape(0)) - 1};
}

headrace::WordRows word_rows(const ConstBytes& values, const ConstInts& offsets, const ConstInts& rows) {
  const headrace::TextRows words = text_rows(values, offsets);
  require_offsets(rows, size_t(words.rows));
  return {words, rows.data(), int64_t(rows.shape(0)) - 1};
}

const uint8_t* bytes_of(const nb::bytes& text) { return reinterpret_cast<const uint8_t*>(text.c_str()); }

headrace::Decoding decoding(int malformed, uint32_t replacement, bool replace_control) {
  require(malformed >= 0 && malformed <= int(headrace::Malformed::kRefuse), "malformed");
  require(replacement <= 0x10ffff && (replacement < 0xd800 || replacement > 0xdfff), "replacement is no character");
  return {headrace::Malformed(malformed), replacement, replace_control};
}

nb::tuple text_arrays(headrace::TextMade& made) { return nb::make_tuple(numpy(made.values), numpy(made.offsets)); }

nb::tuple word_arrays(headrace::WordsMade& made) {
  return nb::make_tuple(numpy(made.values), numpy(made.offsets), numpy(made.rows));
}

// Run `work` without the GIL.
template <typename Made, typename Work>
Made released(Work work) {
  nb::gil_scoped_release free;
  Made made;
  work(made);
  return made;
}

template <typename T>
void bind_numbers(nb::module_& m, const char* name) {
  using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  m.def(
      name,
      [](ConstBytes values, ConstInts offsets, Out out) {
        const headrace::TextRows text = text_rows(values, offsets);
        require(int64_t(out.shape(0)) == text.rows, "out does not fit");
        return headrace::to_numbers(text, out.data());
      },
      "values"_a, "offsets"_a, "out"_a.noconvert(), Released());
}

nb::tuple text_ngrams(ConstBytes values, ConstInts offsets, ConstInts rows, std::vector<int64_t> widths, nb::bytes separator,
                      nb::bytes left, nb::bytes right, int64_t padding, bool keep_short) {
  for (const int64_t width : widths) require(width > 0 && width <= INT_MAX, "widths must be positive");
  require(padding <= INT_MAX, "padding is too large");
  const headrace::NGrams how{std::move(widths), bytes_of(separator), separator.size(), bytes_of(left), left.size(),
                             bytes_of(right),   right.size(),        padding,          keep_short};
  auto made = released<headrace::WordsMade>(
      [&](headrace::WordsMade& out) { headrace::ngrams(word_rows(values, offsets, rows), how, out); });
  return word_arrays(made);
}

nb::tuple cut_lines(ConstBytes data, int64_t most, bool final) {
  require(most >= 0, "most");
  auto made = released<headrace::LinesCut>(
      [&](headrace::LinesCut& out) { headrace::cut_lines(data.data(), data.shape(0), most, final, out); });
  return nb::make_tuple(numpy(made.lines.values), numpy(made.lines.offsets), numpy(made.starts), made.used, made.more);
}

nb::tuple text_cut(ConstBytes values, ConstInts offsets, int64_t start, int64_t length, bool characters, bool whole) {
  require(length >= 0, "length");
  headrace::CutFailure failure{};
  auto made = released<headrace::TextMade>([&](headrace::TextMade& out) {
    failure = headrace::cut_rows(text_rows(values, offsets), {start, length, characters, whole}, out);
  });
  return nb::make_tuple(failure.row, int(failure.problem), text_arrays(made));
}

nb::tuple text_decode(ConstBytes values, ConstInts offsets, int malformed, uint32_t replacement, bool replace_control) {
  const headrace::Decoding how = decoding(malformed, replacement, replace_control);
  headrace::Growing<int32_t> codes;
  headrace::Growing<int64_t> rows;
  int64_t refused;
  {
    nb::gil_scoped_release free;
    refused = headrace::decode_characters(text_rows(values, offsets), how, codes, rows);
  }
  return nb::make_tuple(refused, numpy(codes), numpy(rows));
}

nb::tuple text_characters(ConstBytes values, ConstInts offsets, int malformed, uint32_t replacement) {
  const headrace::Decoding how = decoding(malformed, replacement, false);
  int64_t refused = -1;
  auto made = released<headrace::WordsMade>(
      [&](headrace::WordsMade& out) { refused = headrace::split_characters(text_rows(values, offsets), how, out); });
  return nb::make_tuple(refused, word_arrays(made));
}

nb::tuple text_map_characters(ConstBytes values, ConstInts offsets, ConstBytes table, ConstInts cuts, uint32_t special) {
  require_offsets(cuts, table.shape(0));
  const headrace::CharacterMap map{table.data(), cuts.data(), uint32_t(cuts.shape(0)) - 1, special};
  headrace::Growing<int64_t> noted;
  auto made = released<headrace::TextMade>(
      [&](headrace::TextMade& out) { headrace::map_characters(text_rows(values, offsets), map, out, noted); });
  return nb::make_tuple(text_arrays(made), numpy(noted));
}

}  // namespace

void bind_text(nb::module_& m) {
  m.def(
      "text_map_bytes",
      [](ConstBytes values, ConstInts offsets, ByteTable map) {
        auto made = released<headrace::TextMade>(
            [&](headrace::TextMade& out) { headrace::map_bytes(text_rows(values, offsets), map.data(), out); });
        return text_arrays(made);
      },
      "values"_a, "offsets"_a, "map"_a);
  m.def(
      "text_map_words",
      [](ConstBytes values, ConstInts offsets, ByteTable map) {
        auto made = released<headrace::WordsMade>(
            [&](headrace::WordsMade& out) { headrace::map_words(text_rows(values, offsets), map.data(), out); });
        return word_arrays(made);
      },
      "values"_a, "offsets"_a, "map"_a);
  m.def(
      "text_strip",
      [](ConstBytes values, ConstInts offsets) {
        auto made = released<headrace::TextMade>(
            [&](headrace::TextMade& out) { headrace::strip_spaces(text_rows(values, offsets), out); });
        return text_arrays(made);
      },
      "values"_a, "offsets"_a);
  m.def(
      "text_split",
      [](ConstBytes values, ConstInts offsets, nb::bytes separator, int64_t most) {
        const uint8_t* const at = bytes_of(separator);
        const size_t size = separator.size();
        auto made = released<headrace::WordsMade>([&](headrace::WordsMade& out) {
          const headrace::TextRows text = text_rows(values, offsets);
          size ? headrace::split_at(text, at, size, most, out) : headrace::split_spaces(text, most, out);
        });
        return word_arrays(made);
      },
      "values"_a, "offsets"_a, "separator"_a, "most"_a);
  m.def(
      "text_join",
      [](ConstBytes values, ConstInts offsets, ConstInts rows, nb::bytes separator) {
        const uint8_t* const at = bytes_of(separator);
        const size_t size = separator.size();
        auto made = released<headrace::TextMade>(
            [&](headrace::TextMade& out) { headrace::join_words(word_rows(values, offsets, rows), at, size, out); });
        return text_arrays(made);
      },
      "values"_a, "offsets"_a, "rows"_a, "separator"_a);
  m.def("text_ngrams", &text_ngrams, "values"_a, "offsets"_a, "rows"_a, "widths"_a, "separator"_a, "left"_a, "right"_a,
        "padding"_a, "keep_short"_a);
  bind_numbers<int32_t>(m, "text_to_int32");
  bind_numbers<int64_t>(m, "text_to_int64");
  bind_numbers<float>(m, "text_to_float32");
  bind_numbers<double>(m, "text_to_float64");
  m.def(
      "text_count_characters",
      [](ConstBytes values, ConstInts offsets, Counts out) {
        const headrace::TextRows text = text_rows(values, offsets);
        require(int64_t(out.shape(0)) == text.rows, "out does not fit");
        headrace::count_characters(text, out.data());
      },
      "values"_a, "offsets"_a, "out"_a.noconvert(), Released());
  m.def("cut_lines", &cut_lines, "data"_a, "most"_a, "final"_a);
  m.def("text_cut", &text_cut, "values"_a, "offsets"_a, "start"_a, "length"_a, "characters"_a, "whole"_a);
  m.def("text_decode", &text_decode, "values"_a, "offsets"_a, "malformed"_a, "replacement"_a, "replace_control"_a);
  m.def("text_characters", &text_characters, "values"_a, "offsets"_a, "malformed"_a, "replacement"_a);
  m.def("text_map_characters", &text_map_characters, "values"_a, "offsets"_a, "table"_a, "cuts"_a, "special"_a);
}

}  // namespace headrace::python
