"""Small values that every layer shares: path keys and seeds, keyed random generators, ragged arrays, local paths.

Import any module of it from anywhere; `types` names the types that annotations share. It knows nothing of plans, blocks
or streams.
"""
