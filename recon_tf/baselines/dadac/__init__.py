"""DA-DAC: model-free adversarial imitation with augmented images (DrQ-SAC)."""
