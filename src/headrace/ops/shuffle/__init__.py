"""Shuffling: the public operation, its buffer, its order as a function of the seed, and rows by reference.

Import `shuffle.shuffle`. The buffer and the order know nothing of files.
"""
