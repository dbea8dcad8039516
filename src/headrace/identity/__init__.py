"""Identify a pipeline by the code of its functions with everything they hold, and by the data it reads.

A digest has two halves. `code` is that of functions, to be compared within one version of Python; `values` is that of
arrays, constants, attributes and whatever else they hold. Neither depends on the process, on the hash seed, on files
and lines. State that a function changes itself (a list it appends to, a counter) is no part of it. Opaque objects and
random generators count only by their type.
"""
