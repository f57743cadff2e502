"""IQ-MPC: inverse soft-Q learning in a latent model, with a planner."""
