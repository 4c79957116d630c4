"""Debian's Chromium, as tests start it."""

from __future__ import annotations

import shutil
from typing import Final

#: Programs that will do. Debian's headless shell is the same engine without a window, and costs a third less.
_PROGRAMS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER: Final = next(filter(None, map(shutil.which, _PROGRAMS)), None)
#: What Playwright has Chromium leave out. The switch counts once, so it is said again with what follows here.
_AS_PLAYWRIGHT: Final = (
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "TcpPortRandomizationWin",
    "ThirdPartyStoragePartitioning",
)
#: Web pages of an address bar that nobody sees: for each window a process with them, which computes for a second.
_ADDRESS_BAR: Final = ("WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "WebUIOmniboxPopup")
FLAGS: Final = ("--no-sandbox", f"--disable-features={','.join((*_AS_PLAYWRIGHT, *_ADDRESS_BAR))}")
