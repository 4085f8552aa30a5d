"""One way for all programs that tools start: confined, as far as the machine can."""
