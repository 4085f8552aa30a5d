"""The vectors of segments, and the index that finds the nearest."""
