"""Rows on disk: Arrow files with a page of JSON each, written whole or not at all.

`files.py` is the only place that writes files. It knows blocks and plans, but no operation.
"""
