"""The errors of auctions, in the tree of `worldledger.errors`."""

from worldledger.errors import SimulationError


class NoAuctionError(SimulationError):
    """A world that is no auction; details: ``world_id``, ``ruleset``."""

    code = "no_auction"
