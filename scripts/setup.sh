#!/bin/sh
# Makes .venv hold exactly what constraints.txt pins. Does nothing when that is so already.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
venv=.venv
stamp=$venv/.rondo-setup
log=$venv/setup.log
needed_kb=3500000  # torch alone takes a gigabyte; what pip unpacks is gone afterwards

say() { printf '%s\n' "$*" >&2; }
fail() {
    say ""
    say "Setup failed: $1"
    shift
    for line in "$@"; do say "  $line"; done
    exit 1
}

fingerprint() {
    # The folder is part of it: a virtual environment that was moved does not work.
    { printf '%s\n' "$root" && cat pyproject.toml constraints.txt scripts/setup.sh; } | cksum
}

is_new_enough() {
    command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python; do
        if is_new_enough "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    found=$(python3 --version 2>/dev/null || printf 'none')
    fail "Python 3.11 or newer is needed; found: $found." \
        "Install one (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python)," \
        "or name it: make PYTHON=/path/to/python3.12"
}

tell_what_it_takes() {
    memory=$(awk '/^MemTotal:/ { printf "; there are %.0f GB", $2 / 1000000 }' /proc/meminfo 2>/dev/null || true)
    free=$(df -Pk . | awk 'NR == 2 { printf "%.0f", $4 / 1000000 }')
    say "Rondo takes, on this machine:"
    say "  disk    about 2.2 GB for libraries in $root/$venv ($free GB are free there), and"
    say "          0.5 or 1.1 GB for a language model, if it is to run one itself"
    say "  memory  2.5 to 4 GB with a language model of its own, else about 1 GB$memory"
}

make_venv() {
    python=$(find_python)
    "$python" -c 'import venv, ensurepip' 2>/dev/null || fail \
        "$("$python" --version) comes without venv or ensurepip." \
        "Debian, Ubuntu: apt install python3-venv"
    say "Making $venv with $("$python" --version) …"
    rm -rf "$venv"
    "$python" -m venv "$venv" || fail "$venv could not be made." \
        "The reason stands above. Is the folder $root writable, and is there room on the disk?"
}

check_room() {
    free=$(df -Pk . | awk 'NR == 2 { print $4 }')
    [ "$free" -ge "$needed_kb" ] || fail \
        "about $((needed_kb / 1000000)) GB are needed, and $((free / 1000)) MB are free in $root." \
        "Free some space and run it again."
}

pip() {
    "$venv/bin/python" -m pip --disable-pip-version-check --log "$log" "$@"
}

explain() {
    # What pip wrote last tells which of the usual reasons it was.
    if grep -qiE 'no space left|disk quota' "$log"; then
        fail "the disk is full." "Free some space and run it again."
    elif grep -qiE 'name resolution|NewConnectionError|ConnectTimeout|Read timed out|ProxyError|Network is unreachable|Connection (refused|reset|broken)|getaddrinfo|SSLError' "$log"; then
        fail "the package index could not be reached." \
            "Check the network, and the proxy or mirror that pip is configured with (pip config list)." \
            "What was downloaded is kept: run it again."
    elif grep -qiE 'Permission denied' "$log"; then
        fail "a file could not be written." "Make $root writable for yourself."
    elif grep -qiE 'No matching distribution|ResolutionImpossible|Could not find a version' "$log"; then
        fail "a package is not to be had for $("$venv/bin/python" --version) on this machine." \
            "The last lines above name it. Python 3.11 to 3.13 on Linux or macOS are known to work."
    fi
    fail "pip could not install everything." "The reason stands above; all of it is in $log."
}

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint)" ]; then
    exit 0
fi
if ! is_new_enough "$venv/bin/python"; then
    tell_what_it_takes
    check_room
    make_venv
fi
: > "$log"
say "Installing Rondo and what it needs into $venv (the first time some minutes, about 2 GB) …"
pip install --quiet --upgrade 'pip>=24' || explain
pip install --constraint constraints.txt --editable '.[dev]' || explain
fingerprint > "$stamp"
say "Setup is complete."
