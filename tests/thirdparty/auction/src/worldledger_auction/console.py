"""How the console shows an auction."""

from pathlib import Path
from typing import Final

#: The panel's module.
PANEL: Final = Path(__file__).with_name("panel.js")
