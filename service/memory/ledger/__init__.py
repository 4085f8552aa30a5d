"""The ledger of long-term memory: run loops, segments, words and notes in one SQLite file."""
