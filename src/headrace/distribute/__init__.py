"""Data-parallel training: the rows or files of each process, and states that survive another world size.

Import `distribute` and `merge_states` from here. It knows operations; formats and clusters it does not.
"""
