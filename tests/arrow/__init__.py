"""Arrow: cutting, reading, and lakes of Parquet."""
