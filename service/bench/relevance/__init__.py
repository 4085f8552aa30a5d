"""Whether memory can tell what is about a question from what is merely the best of the rest."""
