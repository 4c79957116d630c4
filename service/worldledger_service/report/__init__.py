"""The report of an experiment: one HTML file with tables and plots, and the numbers behind them.

- ``blocks.py``, ``charts.py``: what a report is made of; no HTML, no plotting
- ``wording.py``, ``steps.py``: how values are written, and round steps
- ``snapshot.py``: one moment of the database, read only
- ``queries.py``: every question by its name, over the schema ``analytics`` and nothing else
- ``experiment.py``: what is said of any experiment; of a kind's worlds, the kind says it (``blocks.KindSection``)
- ``making.py``: the whole report
- ``drawing/``: charts as SVG; the one place that needs matplotlib, which is loaded when something is drawn
- ``page.py``, ``templates/``: the HTML
"""
