"""nvJPEG's batched decoder on the JPEG engine of a GPU, called through its C interface.

The engine is apart from the processors that run kernels, so that it does not wait for a trainer's.
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.core.types import Library
from headrace.device.pixels import Numbers

if TYPE_CHECKING:
    from headrace.device.machine import Machine

log: logging.Logger = logging.getLogger("headrace")

KNOWN_VERSIONS = (12, 13)
"""The major versions, which are those of CUDA, whose interface is the one below."""
SAMPLINGS = ((1, 1), (2, 1), (2, 2))
"""Columns and rows of luma for one of chroma, in files that the engine decodes."""

_BACKEND_HARDWARE = 3
_NO_PIPELINE = 1
_OUTPUT_RGBI = 5
_ALLOCATOR_FAILURE = 5
_PLANES = 4
_POINTER, _INT, _COUNT = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint
_FUNCTIONS = {
    "nvjpegGetProperty": (_INT, _POINTER),
    "nvjpegCreateEx": (_INT, _POINTER, _POINTER, _COUNT, _POINTER),
    "nvjpegJpegStateCreate": (_POINTER, _POINTER),
    "nvjpegDecodeBatchedInitialize": (_POINTER, _POINTER, _INT, _INT, _INT),
    "nvjpegDecodeBatched": (_POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER),
}
"""What is used of it, with the types of arguments. Each returns a status, which is 0 if all went well."""


class NvjpegError(RuntimeError):
    """A call of nvJPEG failed."""


class Files(NamedTuple):
    """Files within one array."""

    data: NDArray[np.uint8]
    starts: Numbers
    sizes: Numbers

    def rows(self, start: int, stop: int) -> Files:
        """Return some of the files."""
        return Files(self.data, self.starts[start:stop], self.sizes[start:stop])


class Decoder:
    """The JPEG engine as one process uses it: one list of files at a time. Make and use it within `Machine.queue`."""

    def __init__(self, machine: Machine, library: Library) -> None:
        self._machine = machine
        self._library = library
        self._lock = threading.Lock()
        self._handle, self._state = _POINTER(), _POINTER()
        self._files: Files | None = None
        """The last list, which the device may still read."""
        # With its pipeline, which takes the same calls of CUDA, a list takes four times as long beside a trainer.
        self._call("nvjpegCreateEx", _BACKEND_HARDWARE, None, None, _NO_PIPELINE, ctypes.byref(self._handle))
        self._call("nvjpegJpegStateCreate", self._handle, ctypes.byref(self._state))

    def decode(self, files: Files, outputs: NDArray[np.uintp]) -> list[int]:
        """Queue the decoding of files to RGB on the machine's stream. Return the numbers of those that nvJPEG refuses.

        Args:
            files: What is decoded.
            outputs: Where the pixels of each go: see `destinations`.

        Raises:
            torch.OutOfMemoryError: nvJPEG finds no memory on the device.
        """
        try:
            self._decode(files, outputs)
        except NvjpegError:
            count = len(outputs)
            if count == 1:
                return [0]
            half = count // 2
            refused = self.decode(files.rows(0, half), outputs[:half])
            return refused + [half + number for number in self.decode(files.rows(half, count), outputs[half:])]
        return []

    def _decode(self, files: Files, outputs: NDArray[np.uintp]) -> None:
        inputs = (files.data.ctypes.data + files.starts).astype(np.uintp)
        sizes = files.sizes.astype(np.uintp)
        stream = self._machine.stream.cuda_stream if self._machine.on_gpu else None
        with self._lock:
            # nvJPEG's streams do not wait for the machine's, on which what they overwrite may still be read.
            if (free := self._machine.ready()) is not None:
                free.synchronize()
            both = self._handle, self._state
            self._call("nvjpegDecodeBatchedInitialize", *both, len(sizes), 1, _OUTPUT_RGBI)
            arrays = [each.ctypes.data for each in (inputs, sizes, outputs)]
            self._call("nvjpegDecodeBatched", *both, *arrays, stream)
            self._files = files

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status == _ALLOCATOR_FAILURE:
            raise self._machine.torch.OutOfMemoryError("nvJPEG has no memory for its buffers. ")
        if status:
            raise NvjpegError(f"{name} failed with status {status}")


def destinations(to: int, starts: Numbers, widths: Numbers) -> NDArray[np.uintp]:
    """Return an `nvjpegImage_t` for each image at `starts` from an address on: four addresses and four pitches."""
    made = np.zeros((len(starts), 2, _PLANES), np.uintp)
    made[:, 0, 0] = starts + to
    made[:, 1, 0] = widths * 3
    return made


def open_decoder(machine: Machine) -> Decoder | None:
    """Return a decoder, or None if there is no library that is known here, or no engine."""
    major = int((machine.torch.version.cuda or "0").partition(".")[0])
    if major not in KNOWN_VERSIONS:
        return None
    for path in [f"libnvjpeg.so.{major}", *map(str, candidates(_packages(), major))]:
        library = load(path, major)
        if library is None:
            continue
        try:
            return Decoder(machine, library)
        except NvjpegError as error:
            log.debug("%s: %s", path, error)
    return None


def load(path: str, major: int) -> Library | None:
    """Return the library there with the types of its functions; None if it is another one."""
    try:
        library = ctypes.CDLL(path)
        for name, types in _FUNCTIONS.items():
            getattr(library, name).argtypes = types
    except (OSError, AttributeError) as error:
        log.debug("%s is no nvJPEG that is known: %s", path, error)
        return None
    version = _INT()
    return library if library.nvjpegGetProperty(0, ctypes.byref(version)) == 0 and version.value == major else None


def candidates(packages: Iterable[Path], major: int) -> list[Path]:
    """Return the libraries of this version in folders of packages: those of CUDA's packages and of torchvision."""
    found: list[Path] = []
    for folder in packages:
        for pattern in (f"nvidia/*/lib/libnvjpeg.so.{major}", f"torchvision.libs/libnvjpeg*.so.{major}*"):
            found += sorted(folder.glob(pattern))
    return list(dict.fromkeys(found))


def _packages() -> list[Path]:
    """Return the folders in which torchvision and CUDA's packages are installed."""
    specs = map(importlib.util.find_spec, ("nvidia", "torchvision"))
    return [Path(place).parent for spec in specs if spec for place in spec.submodule_search_locations or ()]
