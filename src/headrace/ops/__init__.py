"""Operations: one public transformation per file, with its function, its node and its stream.

Helpers of several operations are in `shared/`; shuffling has a package of its own. Operations know plans, columns,
tracing and the execution contracts. They know no format, no rule and no thread.
"""
