"""Memories, and what is put into them, for tests."""
