"""Hooks: a person's own code before and after what the agent does."""
