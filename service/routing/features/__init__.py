"""What the router's model sees of a message and its candidates."""
