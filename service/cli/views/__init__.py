"""What the daemon tells, as people see it in a terminal."""
