"""The command line `headrace`, one command per file.

Commands use the public API. Nothing else imports this package.
"""
