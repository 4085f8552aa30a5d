"""The vector index in Chroma: embedded, on a server, or in the cloud."""
