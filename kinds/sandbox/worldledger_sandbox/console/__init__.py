"""How the console shows a state of these worlds: a panel, as docs/console.md describes it."""

from pathlib import Path
from typing import Final

#: The panel's module.
PANEL: Final = Path(__file__).with_name("panel.js")
