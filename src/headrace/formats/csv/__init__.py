"""CSV: tf.data's rules for records, headers, column types, and the readers for users.

It knows `formats.shared`, and lines from `formats.text`.
"""
