"""Forgetting: words that are gone from every file, and a receipt that says so."""
