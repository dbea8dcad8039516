"""Ends of a pipeline: reduce, save, write files, count, statistics, tables for engines.

Each file is one public function. Sinks know iterators and clusters. Files are written whole or not at all.
"""
