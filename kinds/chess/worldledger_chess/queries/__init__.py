"""Questions with names over games of chess, and their agents; see `worldledger_service.database.analytics.cookbook`."""

from pathlib import Path
from typing import Final

#: Where they are.
FOLDER: Final = Path(__file__).parent
