"""Functions of `map(fn, device="auto")` before `to_jax`: one compiled function of JAX for the rows of a batch.

The function is cut as for PyTorch, but rows have one shape on the device: what makes them so stays on the CPU. Steps
are written for one row; `jax.vmap` makes them steps of a batch.
"""
