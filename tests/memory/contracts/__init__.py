"""What each of memory's protocols promises, tested of every engine that stands behind it."""
