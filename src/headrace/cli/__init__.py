"""The command line `headrace`: one command a file. Nothing else imports it."""
