"""Trace user functions once and run them on whole blocks, bit for bit as if called on each element.

Import `Function`. It knows columns and plans, but no operation: what cannot be traced runs eagerly, and says why.
"""
