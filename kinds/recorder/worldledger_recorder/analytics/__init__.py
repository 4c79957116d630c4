"""Views over the log of recorded programs; see `worldledger_service.database.analytics.of_kinds`."""

from pathlib import Path
from typing import Final

#: Where they are.
FOLDER: Final = Path(__file__).parent
