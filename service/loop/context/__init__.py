"""What the model is shown: the conversation, within its window, and what stands before it."""
