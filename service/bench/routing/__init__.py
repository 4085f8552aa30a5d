"""Routing measured on conversations."""
