"""The commands that the README and the page of schedules show do what they are shown for."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.test_pages import blocks
from tests.support.daemon import environment, serving

pytestmark = pytest.mark.slow


def test_every_command_that_is_shown_ends_well(tmp_path: Path) -> None:
    shown = [
        line.removeprefix("$ ")
        for name, text in blocks("console")
        for line in text.splitlines()
        if name.startswith(("README", "docs/schedules")) and line.startswith("$ rondo ")
    ]
    assert len(shown) >= 5
    folder = tmp_path / "home"
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0" + bytes(200))
    with serving(folder) as daemon:
        variables = environment(
            folder,
            RONDO_SERVER__PORT=str(urlsplit(daemon.url).port),
            RONDO_LLM__PROVIDER="scripted",
            RONDO_EMBEDDER__KIND="none",
        )
        for command in shown:
            done = subprocess.run(
                [sys.executable, "-m", "service.cli", *shlex.split(command)[1:]],
                env=variables,
                cwd=tmp_path,
                input="",
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
