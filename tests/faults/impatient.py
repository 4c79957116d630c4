"""The program ``worldledger``, which lets a database be for a moment only before it ends without what waits for it."""

from __future__ import annotations

import worldledger_service.app
from worldledger_service.cli.entry import main

if __name__ == "__main__":
    worldledger_service.app._SILENT_STOP_SECONDS = 0.5
    main()
