"""Secrets at rest: encrypted, theirs alone, and told apart from what is damaged."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from service.domain.errors import NotFoundError, StorageError
from service.storage.secret_store import SecretStore


def test_a_secret_comes_back_and_nothing_shows_it(tmp_path: Path) -> None:
    SecretStore(tmp_path).set("linear", "密码 very-secret")
    assert SecretStore(tmp_path).get("linear") == "密码 very-secret"
    for each in (tmp_path / "secrets").iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600, each
        assert b"very-secret" not in each.read_bytes()
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700


def test_without_its_key_a_copy_tells_nothing(tmp_path: Path) -> None:
    SecretStore(tmp_path).set("linear", "very-secret")
    (tmp_path / "secrets" / "key").unlink()
    with pytest.raises(StorageError):
        SecretStore(tmp_path).get("linear")
    with pytest.raises(StorageError, match="is not there") as refused:
        SecretStore(tmp_path).set("other", "x")
    assert "backup" in refused.value.advice
    assert not (tmp_path / "secrets" / "key").exists()
    assert SecretStore(tmp_path).unreadable() == ["linear"]


@pytest.mark.parametrize("kept", [0, 1])
def test_a_damaged_key_is_told_whether_or_not_something_is_kept(tmp_path: Path, kept: int) -> None:
    store = SecretStore(tmp_path)
    store.set("linear", "very-secret")
    (tmp_path / "secrets" / "key").write_text("garbage\n")
    if not kept:
        store.remove("linear")
    with pytest.raises(StorageError, match="is damaged"):
        store.set("other", "x")
    assert store.unreadable() == ["linear"][:kept]


def test_the_secrets_that_another_key_has_made_are_named(tmp_path: Path) -> None:
    SecretStore(tmp_path / "elsewhere").set("mail", "x")
    store = SecretStore(tmp_path)
    store.set("linear", "very-secret")
    (tmp_path / "secrets" / "key").write_bytes(
        (tmp_path / "elsewhere" / "secrets" / "key").read_bytes()
    )
    store.set("other", "x")
    assert store.unreadable() == ["linear"]


def test_one_that_is_put_under_another_name_is_refused(tmp_path: Path) -> None:
    store = SecretStore(tmp_path)
    store.set("mail", "for-mail")
    store.set("stranger", "for-a-stranger")
    file = tmp_path / "secrets" / "secrets.json"
    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "stranger": kept["mail"]}))
    with pytest.raises(StorageError):
        store.get("stranger")


@pytest.mark.parametrize("damage", ["", "[]", '{"a": 1}', "\x00"])
def test_a_damaged_file_is_told(tmp_path: Path, damage: str) -> None:
    store = SecretStore(tmp_path)
    store.set("a", "x")
    (tmp_path / "secrets" / "secrets.json").write_text(damage)
    with pytest.raises(StorageError, match=r"secrets\.json"):
        store.get("a")


def test_a_key_that_others_can_read_is_closed_to_them(tmp_path: Path) -> None:
    store = SecretStore(tmp_path)
    store.set("a", "x")
    key = tmp_path / "secrets" / "key"
    key.chmod(0o644)
    assert store.get("a") == "x"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_several_who_set_at_once_lose_nothing(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: SecretStore(tmp_path).set(name, name), names))
    assert SecretStore(tmp_path).names() == names
    assert [SecretStore(tmp_path).get(name) for name in names] == names
    with pytest.raises(NotFoundError):
        SecretStore(tmp_path).get("nobody")
