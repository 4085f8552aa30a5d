#!/bin/sh
# Makes .venv-peers: what `rondo bench loop --peers` compares with, apart from Rondo's own packages.
# The versions are those that the extra `bench` of pyproject.toml allows.
set -eu
cd "$(dirname -- "$0")/.."
venv=.venv-peers
python=.venv/bin/python
wanted=$venv/requirements.txt

fail() { printf '%s\n' "$@" >&2; exit 1; }

# The same Python on both sides: another one would be measured, not another library.
[ -x "$python" ] || fail ".venv is not there yet. Run make setup first."
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$venv"
    "$python" -m venv "$venv" || fail "$venv could not be made; the reason stands above."
fi
"$python" -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    print("\n".join(tomllib.load(file)["project"]["optional-dependencies"]["bench"]))
' > "$wanted"
"$venv/bin/python" -m pip --disable-pip-version-check install --quiet --requirement "$wanted" ||
    fail "The packages could not be installed; the reason stands above." \
        "What was downloaded is kept: run it again."
printf '%s\n' "$venv is ready: rondo bench loop --peers" >&2
