"""Users' functions, traced once and run on whole blocks: never wrong for it, else not at all."""
