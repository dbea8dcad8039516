"""Sources whose rows are found by number: arrays in memory, ranges, counters and stored rows.

Operations build on these nodes. They know plans, columns and how a node runs, but no operation and no file format.
"""
