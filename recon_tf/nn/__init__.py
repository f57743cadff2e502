"""Networks, distributions, optimizers: whatever needs TensorFlow and knows no agent."""
