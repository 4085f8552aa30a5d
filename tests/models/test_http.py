"""Fetching over HTTP, from a real server that can break off."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from service.models.catalog import FileSource, HttpSource
from service.models.fetch import PullCancelledError, PullFailedError
from tests.support.models.stores import WEIGHTS, store
from tests.support.models.web import Web


def test_a_file_is_fetched_over_http(tmp_path: Path, web: Web) -> None:
    assert store(tmp_path, web.source).pull("tiny").read_bytes() == WEIGHTS
    assert web.ranges == [None]


def test_a_broken_transfer_goes_on_where_it_broke(tmp_path: Path, web: Web) -> None:
    web.break_after = [1_000_000, 500_000]
    assert store(tmp_path, web.source).pull("tiny").read_bytes() == WEIGHTS
    assert web.ranges == [None, "bytes=1000000-", "bytes=1500000-"]


def test_a_cancelled_transfer_stops_in_a_silence_and_goes_on_in_the_next_pull(
    tmp_path: Path, web: Web
) -> None:
    web.stall.clear()
    models = store(tmp_path, web.source)
    begun = threading.Event()
    with pytest.raises(PullCancelledError):
        models.pull("tiny", progress=lambda _: begun.set(), cancelled=begun.is_set)
    web.stall.set()
    assert models.pull("tiny").read_bytes() == WEIGHTS
    kept = int((web.ranges[-1] or "").removeprefix("bytes=").rstrip("-") or 0)
    assert 0 < kept <= 100_000


def test_a_file_that_changed_on_the_server_is_fetched_from_its_beginning(
    tmp_path: Path, web: Web
) -> None:
    web.weights = WEIGHTS[::-1]
    web.stall.clear()
    begun = threading.Event()
    models = store(tmp_path, web.source)
    with pytest.raises(PullCancelledError):
        models.pull("tiny", progress=lambda _: begun.set(), cancelled=begun.is_set)
    web.stall.set()
    web.weights, web.etag = WEIGHTS, '"two"'
    assert models.pull("tiny").read_bytes() == WEIGHTS


def test_a_file_of_another_length_is_refused_before_it_is_fetched(tmp_path: Path, web: Web) -> None:
    web.weights = WEIGHTS[:-1]
    with pytest.raises(PullFailedError, match=f"{len(WEIGHTS) - 1} bytes") as raised:
        store(tmp_path, web.source).pull("tiny")
    assert raised.value.wrong_hash


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_is_told_without_the_secrets_of_the_address(
    tmp_path: Path, web: Web, status: int
) -> None:
    web.status = status
    with pytest.raises(PullFailedError, match=f"answered {status}") as raised:
        store(tmp_path, web.source).pull("tiny")
    assert "secret" not in raised.value.detail
    assert "tiny.gguf" in raised.value.detail


def test_a_server_that_is_not_there_gives_way_to_the_next_source(
    tmp_path: Path, local_file: FileSource
) -> None:
    gone = HttpSource("http://127.0.0.1:9/tiny.gguf")
    assert store(tmp_path, gone, local_file).pull("tiny").read_bytes() == WEIGHTS
    with pytest.raises(PullFailedError, match="cannot be reached"):
        store(tmp_path / "alone", gone).pull("tiny")
