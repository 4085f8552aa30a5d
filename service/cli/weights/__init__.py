"""The models that can run on this machine."""
