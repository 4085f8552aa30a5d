"""Schedules at work: they come due, and their owners look at them and change them."""
