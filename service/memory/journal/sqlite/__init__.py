"""The journal in one SQLite file: events, what lists tell, inbox, usage, approvals, receipts."""
