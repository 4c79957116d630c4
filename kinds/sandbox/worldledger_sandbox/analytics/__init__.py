"""Views over the log of sandbox worlds; see `worldledger_service.database.analytics.of_kinds`."""

from pathlib import Path
from typing import Final

#: The folder with their SQL.
FOLDER: Final = Path(__file__).parent
