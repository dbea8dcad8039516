"""The forms of `hr.image` on a device: the same windows, sizes and factors as on the CPU, pixels by PyTorch.

Importing this package registers them. Places and sizes are computed by the CPU's own functions, so they are the same to
the bit; `docs/device.md` has the bounds of what may differ.
"""

from headrace.image.on_device import colour, decode, geometry, mixing, rand_augment, resizing

__all__ = ["colour", "decode", "geometry", "mixing", "rand_augment", "resizing"]
