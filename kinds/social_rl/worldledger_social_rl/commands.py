"""The commands of social-RL runs."""

from service.cli import export_social_rl, import_social_rl
from service.cli.tree import Commands


def add(commands: Commands) -> None:
    """Add them to the program's."""
    commands.add("import social-rl", import_social_rl)
    commands.add("export social-rl", export_social_rl)
