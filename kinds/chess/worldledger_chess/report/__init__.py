"""What a report says of games of chess."""
