"""What becomes of faults: problems of a run that is refused, or notices of one that is taken as it was found."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, TypedDict

from worldledger.errors import InvalidRunError
from worldledger.errors.social_rl import MAX_PROBLEMS
from worldledger_social_rl.rules.faults import Fault

_PLACE: Final = re.compile(r"\[(?:[0-9]+|\"(?:[^\"\\]|\\.)*\")\]")


class Notice(TypedDict):
    """Something odd about a file: where it first was, what, and how many times something of the sort was found."""

    file: str
    path: str
    message: str
    count: int


class Judge:
    """Gathers faults, file by file; ``strict`` says what becomes of them."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.problems: list[dict[str, Any]] = []
        self._notices: dict[tuple[str, str, str], Notice] = {}

    @property
    def notices(self) -> list[Notice]:
        """What was odd and taken all the same, the like of it told once for each file."""
        return list(self._notices.values())

    def take(self, file: str, faults: Iterable[Fault]) -> None:
        """Take faults of a file: problems in strict mode, else notices."""
        for fault in faults:
            if self.strict:
                self.refuse(file, fault.path, fault.message)
            else:
                key = (file, _PLACE.sub("[*]", fault.path), fault.rule)
                notice = self._notices.get(key)
                if notice is None:
                    self._notices[key] = {"file": file, "path": fault.path, "message": fault.message, "count": 1}
                else:
                    notice["count"] += 1

    def refuse(self, file: str, path: str, message: str) -> None:
        """Note a problem that no mode takes; ``file`` is empty where there is none."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(({"file": file} if file else {}) | {"path": path, "message": message})

    def decide(self) -> None:
        """Raise InvalidRunError if there is any problem."""
        if self.problems:
            raise InvalidRunError(self.problems)
