"""The small model that runs on this machine, and what it takes to get good answers from it."""
