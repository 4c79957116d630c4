"""How values are written for people, in tables and plots alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from worldledger.errors import on_one_line

if TYPE_CHECKING:
    from worldledger_service.report.blocks import Kind

#: What stands for a value that is not there.
NOTHING: Final = "\N{EN DASH}"
#: Longest text in a cell.
MOST: Final = 160


def writer(kind: Kind, values: Sequence[Any]) -> Callable[[Any], str]:
    """Return what writes the values of a column: numbers with as many digits, so that they can be compared."""
    match kind:
        case "whole":
            write: Callable[[Any], str] = "{:,}".format
        case "number":
            whole = all(float(value).is_integer() for value in values if value is not None)
            write = number if whole else lambda value: number(value, whole=False)
        case "share":
            write = share
        case "seconds":
            write = seconds
        case "time":
            write = moment
        case _:
            write = _text
    return lambda value: NOTHING if value is None else write(value)


def _text(value: Any) -> str:
    return shown(str(value))


def shown(text: str, most: int = MOST) -> str:
    """Write a text that comes from the data: on one line, with escapes for what cannot be seen, and not too long."""
    text = on_one_line(text)
    return text if len(text) <= most else text[: most - 1] + "…"


def number(value: float, *, whole: bool = True) -> str:
    """Write a number: to two digits after the point, more where it is very small, fewer where it is large.

    ``whole``: none where there is nothing after the point.
    """
    size = abs(value)
    if size >= 1e15 or 0 < size < 1e-5:
        return _signed(f"{value:.2e}")
    if whole and float(value).is_integer():
        return _signed(f"{value:,.0f}")
    if 0 < size < 0.01:
        return _signed(f"{value:.6f}".rstrip("0"))
    return _signed(f"{value:,.{0 if size >= 1000 else 1 if size >= 100 else 2}f}")


def _signed(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}", 1) if text.startswith("-") else text


def share(value: float) -> str:
    """Write a share as percents."""
    return f"{value * 100:.1f} %"


def seconds(value: float) -> str:
    """Write a duration in seconds."""
    return f"{value * 1000:.0f} ms" if 0 < value < 0.1 else f"{number(value)} s"


def moment(value: datetime) -> str:
    """Write a moment, to the second."""
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Write a count with what is counted."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: list[str]) -> str:
    """Write a list of words."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def unit_word(by: str) -> str:
    """Return what a comparison counts in: by ``seq`` the effects that count, whose numbers are no seqs of a log."""
    return "effect" if by == "seq" else by


def unit_number(value: float) -> str:
    """Return the number of a unit, or a time."""
    return str(int(value)) if value == int(value) else f"{value:.10g}"


def matrix_of(pairs: Iterable[Mapping[str, Any]], equal: str, alike: str, before: str) -> dict[tuple[str, str], str]:
    """Return at which unit each two runs part, by their names in either order.

    ``equal`` stands for runs without a difference, ``alike`` for those that differ at the beginning alone, ``before``
    for those that part before the first unit.
    """
    cells = {}
    for pair in pairs:
        divergence = pair["divergence"]
        if divergence is None:
            cell = equal if pair["equal"] else alike
        else:
            cell = before if divergence["number"] is None else unit_number(divergence["number"])
        cells[pair["a"], pair["b"]] = cells[pair["b"], pair["a"]] = cell
    return cells


def unit_place(found: Mapping[str, Any]) -> str:
    """Return where runs part, or first differ, as an adverb: the ``unit`` and its ``number``."""
    unit = unit_word(found["unit"])
    return f"before the first {unit}" if found["number"] is None else f"at {unit} {unit_number(found['number'])}"
