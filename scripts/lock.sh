#!/bin/sh
# Writes constraints.txt from what is installed in .venv.
set -eu
cd "$(dirname -- "$0")/.."
{
    printf '# Exact pins of everything in .venv. Written by `make lock`; not to be edited by hand.\n'
    # A local label such as +cpu names one build of one index; the version alone fits them all.
    .venv/bin/python -m pip --disable-pip-version-check freeze --all --exclude-editable --exclude pip |
        sed 's/+[A-Za-z0-9.]*$//'
} > constraints.txt.new
mv constraints.txt.new constraints.txt
