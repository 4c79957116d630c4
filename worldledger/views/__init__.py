"""The views of many agents of one world, kept up with its log effect by effect. Pure.

``Views`` (`views.py`) is the door. Behind it:

- ``stage.py``: who looks on, and who is concerned by what an effect has touched
- ``onlookers.py``: one agent with its policy
- ``scenes.py``, ``watching.py``: what is in sight of one place, shared by the agents who see the same
- ``audience.py``: which scenes an entity stands in
- ``shown.py``: what of an entity is shown, and its piece of the digested text
- ``world_index.py``: where entities are, and who is related to whom
"""

from worldledger.views.onlookers import Sighting
from worldledger.views.views import Views

__all__ = ["Sighting", "Views"]
