"""Routing measured on conversations, and the training of the router's model."""
