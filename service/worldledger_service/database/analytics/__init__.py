"""The schema ``analytics``: what people ask in SQL, with typed columns, names that explain themselves, and comments.

- ``views.py``: the views over the log, also one for each system kind; and the schema itself
- ``of_kinds.py``: the views that kinds of worlds bring
- ``asking.py``: running somebody's query

The views over projections stand beside those here, in the same schema, and are made by whoever feeds the projections
(`worldledger_service.projecting.builds`).
"""
