"""The database: the supervised embedded server, connections, and the schema as code."""
