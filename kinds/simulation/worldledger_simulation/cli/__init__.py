"""The commands of simulations."""

from worldledger_service.cli.tree import Commands

from worldledger_simulation.cli import checkpoint, config


def add(commands: Commands) -> None:
    """Add the commands to the program's."""
    commands.group("config", "Look at configurations of simulations.", "worldledger config check simulation.yaml")
    commands.add("config check", config.check_config)
    commands.add("config convert", config.convert_config)
    commands.group(
        "checkpoint",
        "Take a simulation's state out, and begin another simulation with it.",
        "worldledger checkpoint export market -o market.json",
        "worldledger checkpoint import market.json --config simulation.yaml --name what-if",
    )
    commands.add("checkpoint export", checkpoint.export_checkpoint)
    commands.add("checkpoint import", checkpoint.import_checkpoint)
