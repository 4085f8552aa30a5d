"""Time expressions in questions, and how well the time of a piece fits them."""
