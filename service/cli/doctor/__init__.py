"""What `rondo doctor` looks at."""
