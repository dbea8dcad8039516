"""What all file formats share: opening, windows over bytes, record identity, indexes, quarantine, one file and many.

Formats import it. It knows no single format.
"""
