// Text: any bytes as rows, cut, joined, mapped, counted, decoded; what was cut goes together again.
#include "../../src/native/text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "check.h"

using namespace headrace;

namespace {

std::vector<uint8_t> bytes_of(Growing<uint8_t>& made) { return {made.data(), made.data() + made.size()}; }

void check_rows(TextMade& made, int64_t rows) {
  CHECK(int64_t(made.offsets.size()) == rows + 1 && made.offsets[0] == 0);
  for (int64_t i = 0; i < rows; ++i) CHECK(made.offsets[size_t(i) + 1] >= made.offsets[size_t(i)]);
  CHECK(size_t(made.offsets[size_t(rows)]) == made.values.size());
}

void check_words(WordsMade& made, int64_t rows) {
  CHECK(int64_t(made.rows.size()) == rows + 1);
  check_rows(made, made.rows[size_t(rows)]);
}

WordRows words_of(WordsMade& made) {
  const TextRows words{made.values.data(), made.offsets.data(), int64_t(made.offsets.size()) - 1};
  return {words, made.rows.data(), int64_t(made.rows.size()) - 1};
}

// By the meaning of a map, one byte after another.
void check_map(const TextRows& text, ByteMap map) {
  TextMade mapped, wanted;
  WordsMade words, wanted_words;
  map_bytes(text, map, mapped);
  map_words(text, map, words);
  const auto end_word = [&] {
    if (int64_t(wanted_words.values.size()) != wanted_words.offsets[wanted_words.offsets.size() - 1]) wanted_words.end_row();
  };
  for (int64_t row = 0; row < text.rows; ++row) {
    for (const uint8_t* at = text.begin(row); at < text.end(row); ++at) {
      const uint16_t byte = map[*at];
      if (!(byte & kDrop)) wanted.values.push(uint8_t(byte));
      if (byte & kSpace) {
        end_word();
      } else if (!(byte & kDrop)) {
        wanted_words.values.push(uint8_t(byte));
      }
    }
    wanted.end_row();
    end_word();
    wanted_words.end_line();
  }
  check_rows(mapped, text.rows);
  check_words(words, text.rows);
  CHECK(bytes_of(mapped.values) == bytes_of(wanted.values) && bytes_of(words.values) == bytes_of(wanted_words.values));
  for (size_t i = 0; i < wanted.offsets.size(); ++i) CHECK(mapped.offsets[i] == wanted.offsets[i]);
  CHECK(words.offsets.size() == wanted_words.offsets.size());
  for (size_t i = 0; i < words.offsets.size(); ++i) CHECK(words.offsets[i] == wanted_words.offsets[i]);
  for (size_t i = 0; i < words.rows.size(); ++i) CHECK(words.rows[i] == wanted_words.rows[i]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const int64_t option = data[0] % 7 - 1, step = 1 + data[1] % 31;
  const std::vector<uint8_t> bytes(data + 2, data + size);  // of its own, so that no read beyond it goes unnoticed
  std::vector<int64_t> offsets{0};
  while (size_t(offsets.back()) < bytes.size()) {
    const size_t here = size_t(offsets.back());
    offsets.push_back(int64_t(std::min(bytes.size(), here + bytes[here] % size_t(step + 1) + offsets.size() % 2)));
  }
  const int64_t rows = int64_t(offsets.size()) - 1;
  const TextRows text{bytes.data(), offsets.data(), rows};

  LinesCut cut;
  cut_lines(bytes.data(), bytes.size(), option < 0 ? INT64_MAX : option, data[1] % 2 == 0, cut);
  const int64_t lines = int64_t(cut.starts.size()) - 1;
  check_rows(cut.lines, lines);
  CHECK(cut.used <= bytes.size() && cut.starts[size_t(lines)] <= int64_t(cut.used) + 1);
  for (const uint8_t byte : bytes_of(cut.lines.values)) CHECK(byte != '\r' && byte != '\n');

  std::vector<uint16_t> map(256);
  for (int i = 0; i < 256; ++i) map[size_t(i)] = uint16_t(i | (i % 5 == option ? kDrop : 0) | (i == ' ' ? kSpace : 0));
  check_map(text, map.data());
  for (int i = 0; i < 256; ++i) {  // as capitals become small, punctuation goes and white space splits
    const bool moved = i >= data[0] && i <= data[0] + step, gone = i >= data[1] && i <= data[1] + option;
    const bool space = i == ' ' || (i >= '\t' && i <= '\r');
    map[size_t(i)] = uint16_t((moved && !space ? (i + 32) % 256 : i) | (space ? kSpace : gone ? kDrop : 0));
  }
  check_map(text, map.data());
  TextMade stripped;
  strip_spaces(text, stripped);
  check_rows(stripped, rows);
  WordsMade spaced, pieces;
  split_spaces(text, option, spaced);
  check_words(spaced, rows);

  const uint8_t separator[2] = {data[0], data[1]};
  const size_t length = 1 + data[0] % 2;
  split_at(text, separator, length, option, pieces);
  check_words(pieces, rows);
  TextMade joined;
  join_words(words_of(pieces), separator, length, joined);
  check_rows(joined, rows);
  CHECK(bytes_of(joined.values) == bytes);  // as it was

  const NGrams how{{1 + step % 4, 2}, separator, length, separator, length, separator, 1, option, data[1] % 2 == 0};
  WordsMade runs;
  ngrams(words_of(spaced), how, runs);
  check_words(runs, rows);

  std::vector<int64_t> integers(static_cast<size_t>(rows) + 1);
  std::vector<double> reals(static_cast<size_t>(rows) + 1);
  CHECK(to_numbers(text, integers.data()) < rows || !rows);
  CHECK(to_numbers(text, reals.data()) < rows || !rows);

  std::vector<int32_t> counts(static_cast<size_t>(rows) + 1);
  count_characters(text, counts.data());
  for (const bool characters : {false, true}) {
    TextMade part;
    const CutFailure failure = cut_rows(text, {option, step, characters, data[1] % 3 == 0}, part);
    CHECK(failure.row < rows);
    check_rows(part, failure.row < 0 ? rows : failure.row);
  }
  for (const Malformed malformed : {Malformed::kReplace, Malformed::kDrop, Malformed::kRefuse}) {
    const Decoding decoding{malformed, 0xfffd, data[0] % 2 == 0};
    Growing<int32_t> codes;
    Growing<int64_t> cuts;
    const int64_t refused = decode_characters(text, decoding, codes, cuts);
    CHECK(refused < rows && int64_t(cuts.size()) == (refused < 0 ? rows : refused) + 1);
    WordsMade characters;
    CHECK(split_characters(text, decoding, characters) == refused);
  }
  std::vector<uint8_t> table;
  std::vector<int64_t> cuts{0};
  for (int i = 0; i < 0x200; ++i) {
    table.insert(table.end(), size_t(i % 4), uint8_t('a'));
    cuts.push_back(int64_t(table.size()));
  }
  TextMade changed;
  Growing<int64_t> noted;
  map_characters(text, {table.data(), cuts.data(), 0x200, 0x3a3}, changed, noted);
  check_rows(changed, rows);
  return 0;
}
