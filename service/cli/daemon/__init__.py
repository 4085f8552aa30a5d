"""The daemon as the commands see it."""
