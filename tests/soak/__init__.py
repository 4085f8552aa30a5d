"""Soaks: commands that take minutes; a smoke form of each is a test."""
