// Samples of a WebDataset archive: members that follow each other and whose names differ in their endings alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "growing.h"

namespace headrace {

// Why the reading of samples ended: there are no more bytes, or as many samples as were wanted; the bytes end within a
// member; a header is damaged; the ending of a name has bytes beyond ASCII, so that its lower case is Python's to make.
enum class TarEnd : int { kDone = 0, kMore = 1, kDamaged = 2, kForeign = 3 };

struct TarSamples {
  Growing<int64_t> begins, ends;  // from the first header of a sample to that of the next, or the end of its last member
  Growing<uint8_t> keys;          // one after another
  Growing<int64_t> key_offsets;
  Growing<int64_t> contents;  // of each sample for each field where its content begins and ends, -1 if it has none
  TarEnd end = TarEnd::kDone;
  int64_t stopped = 0;  // where the headers of the member begin that could not be read
};

// Reads up to `most` samples from bytes that begin with a header. Unless they are `final`, the last sample is left out, since
// more members of it may come. With `cut` another sample begins where final bytes end.
struct TarInput {
  const uint8_t* data;
  size_t size;
  int64_t most;
  bool final, cut;
  std::vector<std::string> fields;
};
void tar_samples(const TarInput& input, TarSamples& out);

}  // namespace headrace
