"""Small values that every layer shares: path keys and seeds, keyed random generators, ragged arrays, local paths.

Import any module of it from anywhere. It knows nothing of plans, blocks or streams.
"""
