"""Databases: one source for all, and one file per driver."""
