"""The schema: migrations, roles, guards, and verification in SQL, on every server that is supported."""
