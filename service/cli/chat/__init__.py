"""Talking with the assistant in a terminal."""
