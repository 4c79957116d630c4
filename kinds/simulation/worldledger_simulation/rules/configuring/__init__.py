"""Reading a simulation's configuration: `worldledger_simulation.rules.config` is the door.

- ``sections.py``: its sections, each a model
- ``reading.py``: from a JSON value to the sections, with every problem; ``plain.py`` and ``parts.py`` are its tools
- ``sights.py``: the section on who observes what
- ``first.py``: the values to begin with
- ``remarks.py``: what it says and probably does not mean
"""
