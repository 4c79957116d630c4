"""Files of records: mappings, tables, rows, and guessing. Without a database."""
