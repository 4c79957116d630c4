"""Wrong usage of the commands of chess."""

from __future__ import annotations

from tests.cli.conftest import Cli


def test_wrong_usage(cli: Cli) -> None:
    """A bad option is exit code 2 and one sentence that leads to the help."""
    for call, what in (
        ("chess show m --at", "option '--at' requires an argument; see `worldledger chess show --help`"),
        (
            "chess play --games 0",
            "invalid value for '--games': must be at least 1; see `worldledger chess play --help`",
        ),
    ):
        assert cli(*call.split()) == (2, "", f"worldledger: {what}\n"), call
