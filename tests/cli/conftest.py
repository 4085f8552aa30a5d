"""A daemon that the tests of the commands share: each has its run loops for itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.cli.daemon.daemon_process import DaemonProcess
from tests.support.cli.commands import Terminal
from tests.support.cli.scripted_daemon import SCRIPT, daemon_with, terminal_of


@pytest.fixture(scope="package")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with daemon_with(tmp_path_factory.mktemp("daemon"), SCRIPT) as running:
        yield running


@pytest.fixture
def terminal(daemon: DaemonProcess) -> Terminal:
    return terminal_of(daemon)
