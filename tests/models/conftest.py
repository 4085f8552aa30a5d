from __future__ import annotations

from pathlib import Path

import pytest

from service.models.catalog import FileSource
from tests.models.support import WEIGHTS


@pytest.fixture
def local_file(tmp_path: Path) -> FileSource:
    file = tmp_path / "weights.bin"
    file.write_bytes(WEIGHTS)
    return FileSource(file)
