"""Files, clocks and tasks: what all stores stand on."""
