"""What takes its time: exports, imports and new indexes, with a bar."""
