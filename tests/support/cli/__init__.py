"""Commands, terminals and daemons for tests."""
