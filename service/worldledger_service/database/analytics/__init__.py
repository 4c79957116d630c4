"""The schema ``analytics``: what people ask in SQL, with typed columns, names that explain themselves, and comments.

- ``definitions.py``: what a view is, and its statements
- ``functions.py``: how values of odd types become nulls, and what else the views and queries call
- ``kinds.py``: one view for each kind of effect of the service's own
- ``views.py``: the other views over the log, and all of them in order
- ``of_kinds.py``: the views that kinds of worlds bring
- ``schema.py``: the schema itself, who may read it, and how a stranger's query is run
- ``asking.py``, ``parameters.py``, ``refusals.py``: running somebody's query

The views over projections stand beside those here, in the same schema, and are made by whoever feeds the projections
(`worldledger_service.projecting.builds`).
"""
