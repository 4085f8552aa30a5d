"""The `Agent`, and what it is put together from."""
