"""Files of records as worlds: CSV, JSON Lines and Parquet, by a mapping that says which columns are what."""
