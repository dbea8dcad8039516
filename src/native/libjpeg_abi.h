// The binary interface of libjpeg, version 6.2, as far as a decoder of windows needs it. libjpeg-turbo has kept it in all
// of its versions. No header of the library is needed to build headrace: the functions are looked up by name when a
// library is loaded. Names are headrace's own; `reserved` fields keep the others at their offsets.
//
// Interfaces 7 and 8 have the same functions but other fields. `create` fails if version or size differ, and then a
// library is not used.
#pragma once

#include <cstddef>

namespace headrace::libjpeg {

constexpr int kInterface = 62;
constexpr int kBlockSize = 8;  // rows and columns of a DCT block

// Color spaces and transforms are C enums in the library; unscoped enums of ints are the same.
enum Colors : int { kGrey = 1, kRgb = 2, kYCbCr = 3 };
enum Transform : int { kAccurateIntegers = 0, kFastIntegers = 1 };

struct Decoder;

// How errors are reported. A negative level is a warning: the data is corrupt, and decoding goes on.
struct Reporter {
  void (*fail)(Decoder*);  // must not return
  void (*warn_or_trace)(Decoder*, int level);
  void (*print)(Decoder*);
  void (*reserved_handlers[2])();
  int reserved_message[22];
  long reserved_warnings;
  const void* reserved_texts;
  int reserved_text_count;
  const void* reserved_more_texts;
  int reserved_more_text_range[2];
};

struct Decoder {
  Reporter* reporter;  // set before `create`, which keeps it
  void* reserved_managers[3];
  int reserved_state[2];
  void* reserved_source;

  // Read from the header of the file.
  unsigned file_width, file_height;
  int file_channels;
  Colors file_colors;

  // Set by the caller between `read_header` and `start`.
  Colors wanted_colors;
  unsigned reserved_scale[2];
  double reserved_gamma;
  int reserved_modes[2];
  Transform transform;
  int smooth_upsampling;
  int reserved_quantization[8];

  // Known from `start` on. `crop` changes row_width.
  unsigned row_width, row_count;
  int reserved_color_channels;
  int row_channels;
  int reserved_sizes[2];
  void* reserved_palette;
  unsigned next_row;

  int reserved_cursors[4];
  void* reserved_tables[13];
  int bits_per_sample;
  void* reserved_components;
  int progressive;
  int reserved_arithmetic;
  unsigned char reserved_conditioning[48];
  unsigned reserved_restart_interval;
  int reserved_jfif;
  unsigned char reserved_jfif_bytes[3];
  unsigned short reserved_density[2];
  int reserved_adobe;
  unsigned char reserved_adobe_byte;
  int reserved_siting;
  void* reserved_markers;

  // The largest sampling factors of a component: blocks per MCU, horizontally and vertically.
  int mcu_columns, mcu_rows;

  int reserved_block_size;
  unsigned reserved_mcu_rows;
  void* reserved_clamp;
  int reserved_scan_size;
  void* reserved_scan[4];
  int reserved_scan_state[18];
  void* reserved_modules[11];
};

#if defined(__LP64__) && (defined(__x86_64__) || defined(__aarch64__))
static_assert(sizeof(Reporter) == 168 && offsetof(Reporter, print) == 16);
static_assert(offsetof(Reporter, reserved_warnings) == 128 && offsetof(Reporter, reserved_more_text_range) == 160);
static_assert(sizeof(Decoder) == 632 && offsetof(Decoder, file_width) == 48 && offsetof(Decoder, file_colors) == 60);
static_assert(offsetof(Decoder, wanted_colors) == 64 && offsetof(Decoder, transform) == 96);
static_assert(offsetof(Decoder, smooth_upsampling) == 100 && offsetof(Decoder, row_width) == 136);
static_assert(offsetof(Decoder, row_channels) == 148 && offsetof(Decoder, next_row) == 168);
static_assert(offsetof(Decoder, bits_per_sample) == 296 && offsetof(Decoder, progressive) == 312);
static_assert(offsetof(Decoder, reserved_markers) == 400 && offsetof(Decoder, mcu_columns) == 408);
static_assert(offsetof(Decoder, mcu_rows) == 412 && offsetof(Decoder, reserved_modules) == 544);
#endif

// The functions that are called, by the names that the library exports. Truth values are ints.
struct Functions {
  Reporter* (*default_reporter)(Reporter*);                              // jpeg_std_error
  void (*create)(Decoder*, int interface, size_t decoder_bytes);         // jpeg_CreateDecompress
  void (*destroy)(Decoder*);                                             // jpeg_destroy_decompress
  void (*from_memory)(Decoder*, const unsigned char*, unsigned long);    // jpeg_mem_src
  int (*read_header)(Decoder*, int image_required);                      // jpeg_read_header
  int (*start)(Decoder*);                                                // jpeg_start_decompress
  unsigned (*read_rows)(Decoder*, unsigned char** rows, unsigned most);  // jpeg_read_scanlines
  unsigned (*skip_rows)(Decoder*, unsigned count);                       // jpeg_skip_scanlines
  void (*crop)(Decoder*, unsigned* left, unsigned* width);               // jpeg_crop_scanline
  int (*finish)(Decoder*);                                               // jpeg_finish_decompress
};

}  // namespace headrace::libjpeg
