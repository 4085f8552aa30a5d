"""The token: made once, for its owner's eyes only, and never replaced in silence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from service.domain.errors import ConfigurationError, StorageError
from service.server.security.bearer_token import load_token


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


def test_a_token_that_is_a_link_is_refused_and_what_it_leads_to_is_left_alone(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("somebody-elses-secret\n")
    secret.chmod(0o644)
    home = tmp_path / "home"
    home.mkdir()
    (home / "token").symlink_to(secret)
    with pytest.raises(ConfigurationError, match="is a link") as caught:
        load_token(home)
    assert "somebody" not in caught.value.problem().in_words()
    assert secret.stat().st_mode & 0o777 == 0o644


def test_a_folder_or_a_pipe_in_place_of_the_token_is_refused_for_what_it_is(
    tmp_path: Path,
) -> None:
    (tmp_path / "token").mkdir()
    with pytest.raises(ConfigurationError, match="token is a folder, not a file") as caught:
        load_token(tmp_path)
    assert caught.value.title == "The token file cannot be used"
    (tmp_path / "token").rmdir()
    os.mkfifo(tmp_path / "token")
    with pytest.raises(ConfigurationError, match="not a file"):
        load_token(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_token_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(load_token(tmp_path).file, 12345, 12345)
    with pytest.raises(ConfigurationError, match="another user"):
        load_token(tmp_path)


@pytest.mark.parametrize(
    "content", ["two words", "two\nlines", "a\tb", "bell\a", "schlüssel", "钥匙", "x" * 10_000]
)
def test_a_token_that_no_header_can_carry_is_refused_and_not_printed(
    tmp_path: Path, content: str
) -> None:
    load_token(tmp_path).file.write_text(content, "utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_token(tmp_path)
    words = caught.value.problem().in_words()
    assert "token" in words
    assert content not in words
