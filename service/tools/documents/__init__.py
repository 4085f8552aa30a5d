"""The text of documents: PDF, Word, spreadsheets; taken out of them in a confined process."""
