"""Rewriting programs that were written for tf.data."""
