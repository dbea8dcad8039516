"""nvJPEG's interface over the CPU's memory: it writes what the CPU decodes."""

import ctypes

import numpy as np

import headrace as hr

HOW = {"dct_method": "INTEGER_ACCURATE", "fancy_upscaling": False}


class FakeNvjpeg:
    """Keeps the files that it decodes, and refuses one."""

    def __init__(self, refused=b""):
        self.count = 0
        self.files = []
        self.refused = refused

    def nvjpegCreateEx(self, backend, device_memory, locked_memory, flags, handle):
        assert (backend, device_memory, locked_memory, flags) == (3, None, None, 1)
        handle._obj.value = 1
        return 0

    def nvjpegJpegStateCreate(self, handle, state):
        state._obj.value = handle.value + 1
        return 0

    def nvjpegDecodeBatchedInitialize(self, handle, state, count, threads, output):
        assert (handle.value, state.value, threads, output) == (1, 2, 1, 5)
        self.count = count
        return 0

    def nvjpegDecodeBatched(self, handle, state, files, sizes, outputs, stream):
        assert (handle.value, state.value, stream) == (1, 2, None)
        size_t = ctypes.c_size_t
        files, sizes = ((size_t * self.count).from_address(at) for at in (files, sizes))
        files = [ctypes.string_at(file, size) for file, size in zip(files, sizes, strict=True)]
        if self.refused in files:
            return 8
        outputs = np.frombuffer((size_t * (8 * self.count)).from_address(outputs), np.uintp).reshape(-1, 2, 4)
        for file, (addresses, pitches) in zip(files, outputs.tolist(), strict=True):
            self.files.append(file)
            pixels = hr.image.decode_jpeg(file, channels=3, **HOW)
            assert (pitches, addresses[1:]) == ([3 * pixels.shape[1], 0, 0, 0], [0, 0, 0])
            ctypes.memmove(addresses[0], pixels.tobytes(), pixels.nbytes)
        return 0
