"""Questions with names over social-RL runs; see `worldledger_service.database.analytics.cookbook`."""

from pathlib import Path
from typing import Final

#: Where they are.
FOLDER: Final = Path(__file__).parent
