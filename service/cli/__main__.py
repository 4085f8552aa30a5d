"""`python -m service.cli` is `rondo`."""

from service.cli import main

main()
