"""Feed trainers: batches become arrays of torch, JAX, Keras or NumPy, converted ahead of use.

`feed.py` is the contract that all adapters share; one file per framework implements it. Adapters know iterators and
plans. They import a framework only inside functions, and know no operation and no format.
"""
