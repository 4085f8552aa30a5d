"""Models, the run loop, the router, and the `Agent` that puts them together."""
