"""Functions of `map(fn, device=…)` as operations of PyTorch on whole batches: graphs, columns on a device, transfers.

`program` says what runs before the cut and after it; `forms` has the form of each operation on a device, registered by
the packages that define the operations. It knows graphs and columns, but no plans.
"""
