"""The plain clone: one network from vectors to actions, what a user would try first."""
