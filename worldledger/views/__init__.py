"""The views of many agents of one world, kept up with its log effect by effect. Pure.

`Views` (`views.py`) is the interface: the viewers, the scenes, and which of them an effect concerns. The others:

- ``viewers.py``: one agent with its policy
- ``scenes.py``: what is in sight of one place, shared by the agents that see the same
- ``shown.py``: what is shown of an entity, and its part of the digested text
- ``world_index.py``: where entities are, and how they are related
"""

from worldledger.views.viewers import Sighting
from worldledger.views.views import Views

__all__ = ["Sighting", "Views"]
