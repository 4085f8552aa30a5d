"""Moving a message, and what followed from it, from one run loop to another."""
