"""The commands of social-RL runs."""

from worldledger_service.cli.tree import Commands

from worldledger_social_rl.cli import export_social_rl, import_social_rl


def add(commands: Commands) -> None:
    """Add them to the program's."""
    commands.add("import social-rl", import_social_rl)
    commands.add("export social-rl", export_social_rl)
