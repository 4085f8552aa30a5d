"""``/v1/memory``, a module for each thing that it can be asked."""
