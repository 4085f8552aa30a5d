"""A daemon that asks, for the tests of this folder; each has its run loops for itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.cli.daemon.daemon_process import DaemonProcess
from tests.support.cli.asking_daemon import asking_daemon
from tests.support.cli.commands import Terminal
from tests.support.cli.scripted_daemon import terminal_of


@pytest.fixture(scope="package")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with asking_daemon(tmp_path_factory.mktemp("asking")) as running:
        yield running


@pytest.fixture
def terminal(daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("EDITOR", "VISUAL"):
        monkeypatch.delenv(name, raising=False)
    return terminal_of(daemon)
