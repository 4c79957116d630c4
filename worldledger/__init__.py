"""The rules of Worldledger: pure, synchronous, without I/O. Authors of simulations import this package.

``from worldledger import record`` is the one way to a part that does I/O (`worldledger.client.recording`), which is
loaded when it is asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worldledger.client.recording import record as record


def __getattr__(name: str) -> Any:
    if name == "record":
        from worldledger.client.recording import record  # noqa: PLC0415 - see above

        return record
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
