// The markers of a JPEG before its pixels. Only files that decoders read without a warning are accepted: baseline or
// sequential Huffman, 8 bits, grey or YCbCr, one scan. Others are left to a library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace::jpeg {

constexpr int kBlock = 8;  // rows and columns of a DCT block

// Coefficients of two blocks are stored side by side: row r of both is at 16 r. This is the place of one of the first
// block by its position in zigzag order.
constexpr int kPairRow = 2 * kBlock;
constexpr int kPairSize = kBlock * kPairRow;
constexpr uint8_t kPlaces[kBlock * kBlock + 16] = {
    0, 1, 16, 32, 17, 2, 3, 18, 33, 48, 64, 49, 34, 19, 4, 5, 20, 35, 50, 65, 80, 96, 81, 66, 51, 36, 21, 6, 7,
    22, 37, 52, 67, 82, 97, 112, 113, 98, 83, 68, 53, 38, 23, 39, 54, 69, 84, 99, 114, 115, 100, 85, 70, 55, 71,
    86, 101, 116, 117, 102, 87, 103, 118, 119,
    119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119};  // those that a wrong code may reach

constexpr int kMaxComponents = 3;
constexpr int kMaxTables = 4;

// A Huffman code as it is stored: how many codes there are of each length, and their symbols in order.
struct HuffmanCode {
  uint8_t counts[17];
  uint8_t symbols[256];
  bool known;
};

struct Component {
  int id, columns, rows;  // blocks per MCU, horizontally and vertically
  int quantisation, dc, ac;
};

struct File {
  int64_t height, width;
  bool baseline;        // not extended sequential
  int component_count;  // 1 or 3
  Component components[kMaxComponents];
  uint16_t quantisations[kMaxTables][kBlock * kBlock];  // in zigzag order
  bool quantisation_known[kMaxTables];
  HuffmanCode dc[kMaxTables], ac[kMaxTables];
  int64_t restart_interval;  // in MCUs; 0 if there is none
  size_t pixels;             // the offset of the entropy-coded data
};

// Read the markers up to the pixels; false if the file is of another kind, or flawed.
bool read_file(const uint8_t* data, size_t size, File& file);

}  // namespace headrace::jpeg
