"""What an update costs, counted from its config."""
