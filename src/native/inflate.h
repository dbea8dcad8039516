// DEFLATE and zlib's frame around it (RFC 1950, 1951), for results whose size is known before.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// Bytes beyond the result that `inflate_zlib` may write to, so that copies can be done in whole words.
constexpr size_t kInflateSlack = 16;

// No input of a byte gives more bytes than this.
constexpr size_t kMostInflated = 1032;

// Fills `out` with exactly `out_size` bytes, and tells whether the input is that, whole and with the right checksum: false
// for anything else. `out` has room for `kInflateSlack` bytes more.
bool inflate_zlib(const uint8_t* data, size_t size, uint8_t* out, size_t out_size);

// The checksums of zlib's frame and of PNG's chunks.
uint32_t adler32(const uint8_t* data, size_t size);
uint32_t crc32(const uint8_t* data, size_t size);

}  // namespace headrace
