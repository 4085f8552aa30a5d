"""Endpoints and clients of models for tests."""
