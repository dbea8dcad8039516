"""Logical rules: plans that run faster and give the same rows under the same marks.

`rules.py` is the ordered list. A rule is a function from a node to a node or None; it asks for traits, not for classes.
"""
