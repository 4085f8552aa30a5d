"""What is remembered: the journal, short-term and long-term memory, and how texts become vectors."""
