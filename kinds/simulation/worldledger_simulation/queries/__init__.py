"""Named queries over simulations; see `worldledger_service.database.analytics.cookbook`."""

from pathlib import Path
from typing import Final

#: The folder with their SQL.
FOLDER: Final = Path(__file__).parent
