"""The forms of `hr.image` by JAX: places and amounts by the CPU's own functions, pixels by jax.numpy, image by image.

Importing this package registers them. `docs/device.md` has the bounds of what may differ.
"""

from headrace.image.on_jax import colour, geometry, mixing, resizing

__all__ = ["colour", "geometry", "mixing", "resizing"]
