"""Bringing journals of older versions into the form of today, at the start."""
