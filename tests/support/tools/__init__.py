"""Calls of tools for tests."""
