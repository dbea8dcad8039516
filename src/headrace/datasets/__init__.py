"""Ready-made datasets: `public` declares them, `formats` parses the files that they are published as.

Nothing here is imported by `import headrace`; `hr.load` imports the one file that a name asks for.
"""
