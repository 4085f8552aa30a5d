"""When something is due: moments, recurrences, how people say them, and what is kept of each."""
