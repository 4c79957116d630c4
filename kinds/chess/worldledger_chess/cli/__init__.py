"""The commands of games of chess."""
