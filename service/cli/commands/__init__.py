"""The subcommands of `rondo`."""
