"""Databases: each driver in a file of its own, one source for them all."""
