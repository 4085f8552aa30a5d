"""The subcommands of `rondo`, a file for each."""
