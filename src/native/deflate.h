// DEFLATE in zlib's frame (RFC 1950, 1951), for data that is compressed once, in one piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "growing.h"

namespace headrace {

// Memory that is used for one result after the other.
struct DeflateScratch {
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> last_seen;  // by hash: one more than where these four bytes were last
};

// Appends the compressed form of `size` bytes to `out`.
void deflate_zlib(const uint8_t* data, size_t size, DeflateScratch& scratch, Growing<uint8_t>& out);

}  // namespace headrace
