#include "jpeg_file.h"

#include <cstring>

namespace headrace::jpeg {
namespace {

enum Marker : int {
  kBaseline = 0xC0,
  kSequential = 0xC1,
  kHuffmanTables = 0xC4,
  kStart = 0xD8,
  kScan = 0xDA,
  kQuantisationTables = 0xDB,
  kRestartInterval = 0xDD,
  kApplication0 = 0xE0,
  kApplication14 = 0xEE,
  kApplication15 = 0xEF,
  kComment = 0xFE,
};

// The content of a segment; every read is checked by its caller against `size`.
struct Segment {
  const uint8_t* data;
  size_t size;

  int word(size_t at) const { return data[at] << 8 | data[at + 1]; }
  bool begins(const char* with, size_t count) const { return size >= count && std::memcmp(data, with, count) == 0; }
};

// What the application segments say about colours, in the order in which libjpeg trusts them.
struct Colours {
  bool jfif = false, adobe = false;
  int adobe_transform = 0;
};

bool read_application(const Segment& in, int marker, Colours& colours) {
  if (marker == kApplication0 && in.size >= 14 && in.begins("JFIF\0", 5)) {
    colours.jfif = true;
    return in.data[5] == 1;  // decoders warn of another version
  }
  if (marker == kApplication14 && in.size >= 12 && in.begins("Adobe", 5)) {
    colours.adobe = true;
    colours.adobe_transform = in.data[11];
  }
  return true;
}

bool read_quantisation(Segment in, File& file) {
  constexpr size_t kCount = kBlock * kBlock;
  while (in.size > 0) {
    const int precision = in.data[0] >> 4, number = in.data[0] & 15;
    const size_t bytes = 1 + kCount * size_t(1 + precision);
    if (precision > 1 || number >= kMaxTables || in.size < bytes) return false;
    for (size_t i = 0; i < kCount; ++i) {
      file.quantisations[number][i] = uint16_t(precision ? in.word(1 + 2 * i) : in.data[1 + i]);
    }
    file.quantisation_known[number] = true;
    in = {in.data + bytes, in.size - bytes};
  }
  return true;
}

bool read_huffman(Segment in, File& file) {
  while (in.size > 0) {
    if (in.size < 17) return false;
    const int kind = in.data[0] >> 4, number = in.data[0] & 15;
    if (kind > 1 || number >= kMaxTables) return false;
    HuffmanCode& code = (kind ? file.ac : file.dc)[number];
    code = {};
    size_t symbols = 0;
    for (int length = 1; length <= 16; ++length) symbols += code.counts[length] = in.data[length];
    if (symbols > 256 || in.size < 17 + symbols) return false;
    std::memcpy(code.symbols, in.data + 17, symbols);
    code.known = true;
    in = {in.data + 17 + symbols, in.size - 17 - symbols};
  }
  return true;
}

// One component, or three whose colours are sampled once per MCU.
bool read_frame(const Segment& in, File& file) {
  if (file.component_count || in.size < 6 || in.data[0] != 8) return false;
  file.height = in.word(1);
  file.width = in.word(3);
  const int count = in.data[5];
  if (file.height < 1 || file.width < 1 || (count != 1 && count != 3) || in.size != size_t(6 + 3 * count)) return false;
  for (int i = 0; i < count; ++i) {
    const uint8_t* const at = in.data + 6 + 3 * i;
    Component& component = file.components[i];
    component = {at[0], at[1] >> 4, at[1] & 15, at[2], 0, 0};
    if (component.quantisation >= kMaxTables) return false;
    for (int j = 0; j < i; ++j) {
      if (file.components[j].id == component.id) return false;
    }
    if (component.columns < 1 || component.columns > 4 || component.rows < 1 || component.rows > 4) return false;
  }
  Component& first = file.components[0];
  if (count == 1) {
    first.columns = first.rows = 1;  // a scan of one component has blocks as MCUs, whatever its factors
  } else {
    if (first.columns == 3 || first.rows > 2) return false;
    for (int i = 1; i < count; ++i) {
      if (file.components[i].columns != 1 || file.components[i].rows != 1) return false;
    }
  }
  file.component_count = count;
  return true;
}

bool read_scan(const Segment& in, File& file) {
  const int count = file.component_count;
  if (!count || in.size != size_t(4 + 2 * count) || in.data[0] != count) return false;
  for (int i = 0; i < count; ++i) {
    Component& component = file.components[i];
    const uint8_t* const at = in.data + 1 + 2 * i;
    component.dc = at[1] >> 4;
    component.ac = at[1] & 15;
    if (at[0] != component.id || component.dc >= kMaxTables || component.ac >= kMaxTables) return false;
    if (!file.dc[component.dc].known || !file.ac[component.ac].known) return false;
    if (!file.quantisation_known[component.quantisation]) return false;
  }
  const uint8_t* const range = in.data + 1 + 2 * count;
  return range[0] == 0 && range[1] == 63 && range[2] == 0;
}

bool is_ycbcr(const File& file, const Colours& colours) {
  if (colours.jfif) return true;
  if (colours.adobe) return colours.adobe_transform == 1;
  return file.components[0].id == 1 && file.components[1].id == 2 && file.components[2].id == 3;
}

}  // namespace

bool read_file(const uint8_t* data, size_t size, File& file) {
  file.component_count = 0;
  file.restart_interval = 0;
  for (int i = 0; i < kMaxTables; ++i) file.quantisation_known[i] = file.dc[i].known = file.ac[i].known = false;
  Colours colours;
  if (size < 2 || data[0] != 0xFF || data[1] != kStart) return false;
  for (size_t at = 2; at < size && size - at >= 4;) {
    if (data[at] != 0xFF) return false;
    const int marker = data[at + 1];
    if (marker == 0xFF) {  // a byte that fills
      ++at;
      continue;
    }
    const size_t length = size_t(data[at + 2] << 8 | data[at + 3]);
    if (length < 2 || length > size - at - 2) return false;
    const Segment in{data + at + 4, length - 2};
    at += 2 + length;
    bool read = marker == kComment;
    if (marker == kBaseline || marker == kSequential) {
      file.baseline = marker == kBaseline;
      read = read_frame(in, file);
    }
    if (marker == kHuffmanTables) read = read_huffman(in, file);
    if (marker == kQuantisationTables) read = read_quantisation(in, file);
    if (marker >= kApplication0 && marker <= kApplication15) read = read_application(in, marker, colours);
    if (marker == kRestartInterval && in.size == 2) {
      file.restart_interval = in.word(0);
      read = true;
    }
    if (marker == kScan) {
      file.pixels = at;
      return read_scan(in, file) && (file.component_count == 1 || is_ycbcr(file, colours));
    }
    if (!read) return false;
  }
  return false;
}

}  // namespace headrace::jpeg
