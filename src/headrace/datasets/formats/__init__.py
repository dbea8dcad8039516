"""Parsers of the file formats that public datasets come in: IDX, CIFAR's binary files, MATLAB, archives, tables."""
