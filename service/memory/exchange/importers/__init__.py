"""Reading the archives that people have of their conversations elsewhere, as run loops."""
