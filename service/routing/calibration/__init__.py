"""Calibrating the router by what persons have corrected."""
