"""A daemon over HTTP for tests."""
