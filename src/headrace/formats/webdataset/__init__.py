"""WebDataset: samples in tar archives.

It knows `formats.shared`, and lines from `formats.text`. The public source is in `sources`, because it decodes images.
"""
