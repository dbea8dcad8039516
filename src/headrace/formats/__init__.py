"""File formats. Each package holds one format: how bytes become records, the columns they make, and the public source.

`shared/` is what all formats have in common. Formats know operations and stores, but nothing of trainers or catalogues.
"""
