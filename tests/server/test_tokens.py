"""The token: made once, for its owner's eyes only, and never replaced in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.errors import ConfigurationError, StorageError
from service.server.tokens import load_token


def test_the_first_start_makes_a_token_that_only_its_owner_can_read(tmp_path: Path) -> None:
    token = load_token(tmp_path / "new" / "folder")
    assert token.is_new
    assert len(token.value) >= 40
    assert token.file.stat().st_mode & 0o777 == 0o600


def test_later_starts_find_the_same_token(tmp_path: Path) -> None:
    first = load_token(tmp_path)
    second = load_token(tmp_path)
    assert second.value == first.value
    assert not second.is_new


def test_a_token_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    file = load_token(tmp_path).file
    file.chmod(0o644)
    load_token(tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe"])
def test_a_token_file_without_a_token_is_never_taken_for_one(
    tmp_path: Path, content: bytes
) -> None:
    file = load_token(tmp_path).file
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match="holds no token"):
        load_token(tmp_path)


def test_a_data_folder_that_cannot_be_used_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StorageError) as caught:
        load_token(tmp_path / "file")
    assert "RONDO_DATA_DIR" in caught.value.advice
