"""Who may speak to the daemon, and what the log may not hold."""
