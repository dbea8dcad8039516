"""Files of records: their bytes, how they are cut into rows, where each row lies, and what is wrong with some."""
