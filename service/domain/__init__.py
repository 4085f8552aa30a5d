"""The shared words of the house as pure types: no I/O, no clock, no randomness but in `ids`."""
