"""Reading a simulation's configuration: `worldledger_simulation.rules.config` is the interface.

- ``sections.py``: its sections, each a model
- ``reading.py``: from a JSON value to the sections, with every problem
- ``first.py``: the initial values
- ``converting.py``: configurations of llm-sim
"""
