"""A run loop at work: its brain, its executors, and what the model is shown."""
