"""What model calls may use: reserved before each, within caps, and counted after it."""
