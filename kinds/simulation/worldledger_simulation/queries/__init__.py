"""Questions with names over simulations; see `worldledger_service.database.analytics.cookbook`."""

from pathlib import Path
from typing import Final

#: Where they are.
FOLDER: Final = Path(__file__).parent
