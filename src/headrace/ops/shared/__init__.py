"""Helpers of several operations: calling user functions, batching, rows by number, checks of arguments.

Operations import it. No public operation is defined here.
"""
