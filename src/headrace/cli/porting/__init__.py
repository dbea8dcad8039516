"""Rewriting programs that were written for tf.data: `headrace port`.

It knows syntax trees and names, and imports no program that it rewrites.
"""
