"""Stages with threads of their own: eager user functions, prefetching, hand-over between threads, AUTOTUNE.

Import `parallel`. Stages know streams and channels; they know no operation.
"""
