"""`rondo memory` and its subcommands, a file for each."""
