"""The router: which run loop a message belongs to, and why."""
