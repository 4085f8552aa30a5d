"""Models for tests and demonstrations: one that follows a script, one that fails on purpose."""
