"""Parsers of the file formats that public datasets come in: IDX, CIFAR's binary files, MATLAB, archives, tables.

Only `datasets.public` imports it. It knows bytes and arrays; it knows no dataset.
"""
