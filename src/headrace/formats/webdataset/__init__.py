"""WebDataset: samples in tar archives.

It knows `formats.shared`; no other format. The public source is in `sources`, because it decodes images.
"""
