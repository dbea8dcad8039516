"""Files in object stores: transport with retries, ranges fetched ahead, the disk cache, and names without secrets.

Formats read through it. It knows no format and no operation.
"""
