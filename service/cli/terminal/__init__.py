"""Reading from a terminal and writing to it, whatever it can do."""
