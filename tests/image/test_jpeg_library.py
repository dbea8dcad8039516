"""A libjpeg with another binary interface is not used, and images are decoded without it."""

import os
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("simplejpeg")

# The check that every libjpeg makes when a decoder is created; a call of anything else ends the process.
SOURCE = """
#include <stddef.h>
#include <stdlib.h>

struct decoder { void (**handlers)(struct decoder *); void *memory; };

void *jpeg_std_error(void *reporter) { return reporter; }
void jpeg_destroy_decompress(struct decoder *decoder) { if (decoder->memory) abort(); }
void jpeg_CreateDecompress(struct decoder *decoder, int interface, size_t bytes) {
  decoder->memory = NULL;
  if (interface != INTERFACE || bytes != BYTES) {
    decoder->handlers[0](decoder);
    abort();
  }
}
void jpeg_mem_src(void) { abort(); }
void jpeg_read_header(void) { abort(); }
void jpeg_start_decompress(void) { abort(); }
void jpeg_read_scanlines(void) { abort(); }
void jpeg_skip_scanlines(void) { abort(); }
void jpeg_crop_scanline(void) { abort(); }
#ifndef OLD
void jpeg_finish_decompress(void) { abort(); }
#endif
"""

USES = "import sys; from headrace import _native; print(*map(_native.use_jpeg_library, sys.argv[1:]))"

DECODES = """
import sys
import numpy as np
import simplejpeg
import headrace as hr
from headrace.image import jpeg_library

jpeg_library._candidates = lambda: iter(sys.argv[1:])
encoded = simplejpeg.encode_jpeg(np.arange(40 * 30 * 3, dtype=np.uint8).reshape(40, 30, 3))
whole = simplejpeg.decode_jpeg(encoded, fastdct=True)
window = hr.image.decode_and_crop_jpeg(encoded, (20, 11, 9, 17))
np.testing.assert_array_equal(window, whole[20:29, 11:28])
print(jpeg_library.decodes_windows())
"""


def said(program, *arguments):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Return a function that compiles a libjpeg that asks for these macros' interface."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("libjpeg")
    (folder / "libjpeg.c").write_text(SOURCE)

    def compiled(*macros):
        path = folder / ("-".join(macros) + ".so")
        flags = ["-shared", "-fPIC", *(f"-D{macro}" for macro in macros)]
        subprocess.run([compiler, *flags, folder / "libjpeg.c", "-o", path], check=True)
        return path

    return compiled


@pytest.mark.skipif(sys.maxsize < 2**32, reason="the size of the struct is that of 64-bit machines")
def test_the_first_library_with_the_interface_is_used(library):
    other, same = library("INTERFACE=80", "BYTES=656"), library("INTERFACE=62", "BYTES=632")
    assert said(USES, other, same, other) == "False True True", "from then on, one is loaded"


@pytest.mark.parametrize(
    "macros",
    [("INTERFACE=80", "BYTES=656"), ("INTERFACE=62", "BYTES=656"), ("INTERFACE=62", "BYTES=632", "OLD")],
    ids=["interface 8", "another size", "a function is missing"],
)
def test_another_interface_is_not_used(library, macros):
    assert said(DECODES, library(*macros)) == "False"


def test_a_file_that_is_no_library_is_not_used(tmp_path):
    (tmp_path / "libjpeg.so").write_bytes(b"\x7fELF, not")
    assert said(DECODES, tmp_path / "libjpeg.so", "libjpeg.so.none") == "False"
