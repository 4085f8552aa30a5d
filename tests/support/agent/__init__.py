"""Agents, models and conversations for tests."""
