"""Scripts as tools: the folder that a person keeps, and how a run of one is bounded."""
