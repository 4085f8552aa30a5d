"""What happened: the journal, what it projects, and who follows it."""
