"""The ledger in one SQLite file: run loops, segments, words, vectors, notes, what is pending."""
