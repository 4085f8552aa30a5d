"""Fitting and measuring what tells a person's limits, and where these matter."""
