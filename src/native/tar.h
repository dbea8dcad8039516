// Samples of a WebDataset archive: consecutive members whose names differ only in their endings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "growing.h"

namespace headrace {

// Why reading ended: no more bytes, or as many samples as were wanted; the bytes end within a member; a header is
// damaged; the ending of a name is not ASCII, so that Python must lower it.
enum class TarEnd : int { kDone = 0, kMore = 1, kDamaged = 2, kForeign = 3 };

struct TarSamples {
  Growing<int64_t> begins, ends;  // from the first header of a sample to that of the next, or the end of its last member
  Growing<uint8_t> keys;          // one after another
  Growing<int64_t> key_offsets;
  Growing<int64_t> contents;  // for each sample and field where its content begins and ends, -1 if it has none
  TarEnd end = TarEnd::kDone;
  int64_t stopped = 0;  // where the headers of the unreadable member begin
};

// Read up to `most` samples from bytes that begin with a header. Unless they are `final`, the last sample is left out,
// because more members of it may follow. With `cut` another sample begins at the end of final bytes.
struct TarInput {
  const uint8_t* data;
  size_t size;
  int64_t most;
  bool final, cut;
  std::vector<std::string> fields;
};
void tar_samples(const TarInput& input, TarSamples& out);

}  // namespace headrace
