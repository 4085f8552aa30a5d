"""Notes on persons, projects and topics, each sentence with what it rests on."""
