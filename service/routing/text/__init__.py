"""What is read out of a text once, without a model."""
