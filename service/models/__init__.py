"""Weights of embedded language models: which are known, and how they get onto this machine."""
