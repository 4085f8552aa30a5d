"""Weights, and where they come from, for tests."""
