"""Views over the log of auctions."""

from pathlib import Path

FOLDER = Path(__file__).parent
