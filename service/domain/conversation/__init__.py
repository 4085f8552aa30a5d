"""Messages and their parts: what people, models and tools say to each other, and in which
pieces."""
