"""The shared vocabulary as pure types: no I/O, no clock, no randomness but in `ids`."""
