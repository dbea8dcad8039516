"""Public sources that are not files of records: generators, tables in memory, folders, databases, engines.

File formats are in `formats`, sources that operations build on in `indexed`. Sources know operations and formats.
"""
