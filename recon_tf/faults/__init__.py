"""A campaign of kills, damaged files and bad input against real training runs."""
