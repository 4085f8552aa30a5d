from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.models.catalog import FileSource
from tests.support.models.stores import WEIGHTS
from tests.support.models.web import Web, web_server


@pytest.fixture
def local_file(tmp_path: Path) -> FileSource:
    file = tmp_path / "weights.bin"
    file.write_bytes(WEIGHTS)
    return FileSource(file)


@pytest.fixture
def web() -> Iterator[Web]:
    with web_server() as server:
        yield server
