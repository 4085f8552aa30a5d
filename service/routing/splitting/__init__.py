"""Parting a message that lists several requests."""
