"""Worker processes: user functions and whole pipelines outside this process, exchanged through shared memory.

Import `block_workers` and `plan_process`. They know plans and blocks; they know no operation.
"""
