"""The commands of simulations."""

from worldledger_service.cli.options import examples
from worldledger_service.cli.tree import Commands

from worldledger_simulation.cli import checkpoint_export, checkpoint_import, config_check, config_convert

_CONFIGS = examples("worldledger config check simulation.yaml")
_CHECKPOINTS = examples(
    "worldledger checkpoint export market -o market.json",
    "worldledger checkpoint import market.json --config simulation.yaml --name what-if",
)


def add(commands: Commands) -> None:
    """Add them to the program's commands."""
    commands.group("config", "Look at configurations of simulations.", _CONFIGS)
    commands.add("config check", config_check)
    commands.add("config convert", config_convert)
    commands.group("checkpoint", "Take a simulation's state out, and begin another simulation with it.", _CHECKPOINTS)
    commands.add("checkpoint export", checkpoint_export)
    commands.add("checkpoint import", checkpoint_import)
