"""What tells one pipeline from another: the code of its functions with all they hold on to, and the data it reads.

A digest has two halves. `code` is that of functions, to be compared within one version of Python; `values` is that of
arrays, constants, attributes and whatever else they hold. Neither depends on the process, on the seed of hashes, on
files and lines. What a function changes itself (a list it appends to, a counter) is no part of it, nor is what nobody
can look into, and generators of random numbers: such things count by their type.
"""
