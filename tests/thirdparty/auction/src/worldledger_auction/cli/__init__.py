"""The commands of auctions."""

from worldledger_service.cli.options import examples
from worldledger_service.cli.tree import Commands

from worldledger_auction.cli import import_auction, show


def add(commands: Commands) -> None:
    """Add them to the program's."""
    commands.add("import auction", import_auction)
    commands.group("auction", "Look at auctions.", examples("worldledger auction show spring"))
    commands.add("auction show", show)
