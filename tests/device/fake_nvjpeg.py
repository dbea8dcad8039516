"""nvJPEG's interface over the CPU's memory: luma and chroma that Pillow decodes are written to their planes."""

import ctypes
import io

import numpy as np
from PIL import Image


class FakeNvjpeg:
    """Keeps the files that it decodes. Chroma that is stored at half the size must be the same in all of a file."""

    def __init__(self):
        self.count = 0
        self.files = []
        self.refused = b""

    def nvjpegCreateEx(self, backend, device_memory, locked_memory, flags, handle):
        assert (backend, device_memory, locked_memory, flags) == (3, None, None, 1)
        handle._obj.value = 1
        return 0

    def nvjpegJpegStateCreate(self, handle, state):
        state._obj.value = handle.value + 1
        return 0

    def nvjpegDecodeBatchedInitialize(self, handle, state, count, threads, output):
        assert (handle.value, state.value, threads, output) == (1, 2, 1, 1)
        self.count = count
        return 0

    def nvjpegDecodeBatched(self, handle, state, files, sizes, outputs, stream):
        assert (handle.value, state.value, stream) == (1, 2, None)
        size_t = ctypes.c_size_t
        files, sizes = ((size_t * self.count).from_address(at) for at in (files, sizes))
        outputs = np.frombuffer((size_t * (8 * self.count)).from_address(outputs), np.uintp).reshape(-1, 2, 4)
        files = [ctypes.string_at(file, size) for file, size in zip(files, sizes, strict=True)]
        if self.refused in files:
            return 8
        for file, (addresses, pitches) in zip(files, outputs.tolist(), strict=True):
            self.files.append(file)
            for plane, address, pitch in zip(planes_of(file), addresses, pitches, strict=False):
                assert pitch == plane.shape[1]
                ctypes.memmove(address, plane.tobytes(), plane.size)
        return 0


def planes_of(file):
    image = Image.open(io.BytesIO(file))
    image.draft("L" if image.mode == "L" else "YCbCr", image.size)
    _, columns, rows, _ = image.layer[0]
    steps = [(1, 1), (rows, columns), (rows, columns)]
    return [np.asarray(plane)[::y, ::x] for plane, (y, x) in zip(image.split(), steps, strict=False)]


def jpegs():
    """JPEGs by name: the engine can decode those in capitals."""
    rng = np.random.default_rng(0)

    def jpeg(height, width, mode="YCbCr", chroma=None, **how):
        planes = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        if chroma is not None:
            planes[..., 1:] = chroma
        image = Image.merge("YCbCr", [Image.fromarray(planes[..., i]) for i in range(3)]).convert(mode)
        out = io.BytesIO()
        image.save(out, "JPEG", **{"quality": 95, "subsampling": "4:4:4", **how})
        return out.getvalue()

    return {
        "A": jpeg(9, 13),
        "B": jpeg(3, 600, quality=40),
        "a": jpeg(8, 8, progressive=True),
        "C": jpeg(11, 19, chroma=(60, 200), subsampling="4:2:0"),
        "D": jpeg(6, 17, chroma=(180, 90), subsampling="4:2:2"),
        "F": jpeg(5, 31, "L"),
    }
