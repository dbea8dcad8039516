// DEFLATE and zlib's frame around it (RFC 1950, 1951), for results of known size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// Bytes beyond the result that `inflate_zlib` may write to, so that copies can use whole words.
constexpr size_t kInflateSlack = 16;

// No input byte gives more bytes than this.
constexpr size_t kMostInflated = 1032;

// Fill `out` with exactly `out_size` bytes. Return whether the input is complete and has the right checksum. `out` has
// room for `kInflateSlack` bytes more.
bool inflate_zlib(const uint8_t* data, size_t size, uint8_t* out, size_t out_size);

// The checksums of zlib's frame and of PNG's chunks.
uint32_t adler32(const uint8_t* data, size_t size);
uint32_t crc32(const uint8_t* data, size_t size);

}  // namespace headrace
