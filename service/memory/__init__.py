"""What is remembered: the journal, short-term memory and long-term memory."""
