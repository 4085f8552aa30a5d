"""The history of a run loop: its events, and the state that they fold to."""
