"""From a question to hits: candidates by words and by meaning, in one order."""
