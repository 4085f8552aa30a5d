"""What memory puts beside a message before the model answers it."""
