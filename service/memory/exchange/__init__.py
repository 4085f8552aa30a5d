"""Bringing run loops in from files, and writing them out."""
