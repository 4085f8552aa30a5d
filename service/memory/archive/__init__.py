"""What is remembered, word for word: the ledger, and the segments that it is cut into."""
