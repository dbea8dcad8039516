"""Databases: one source for all, and one file per driver.

Import `from_sql` and `SqlDataset`. A driver knows its own database, and imports its package when it is used.
"""
