"""The model store, with files on this machine."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from service.domain.errors import ModelStoreError, NotFoundError
from service.models.catalog import FileSource, HttpSource, known_model
from service.models.fetch import PullCancelledError, PullFailedError, PullProgress
from service.models.weight_store import ModelStore
from tests.support.models.stores import WEIGHTS, left_over, store


def test_a_model_is_not_there_before_it_is_pulled_and_stays_there_afterwards(
    tmp_path: Path, local_file: FileSource
) -> None:
    models = store(tmp_path, local_file)
    assert models.path("tiny") is None
    path = models.pull("tiny")
    assert path.read_bytes() == WEIGHTS
    local_file.path.unlink()
    assert models.pull("tiny") == models.path("tiny") == path
    assert left_over(tmp_path) == []


def test_progress_counts_up_to_the_whole_and_then_the_hash_is_checked(
    tmp_path: Path, local_file: FileSource
) -> None:
    seen: list[PullProgress] = []
    store(tmp_path, local_file).pull("tiny", progress=seen.append)
    assert [report.stage for report in seen] == sorted(report.stage for report in seen)
    for stage in ("downloading", "verifying"):
        done = [report.done_bytes for report in seen if report.stage == stage]
        assert done == sorted(done)
        assert done[-1] == len(WEIGHTS)
    assert seen[0].in_words().startswith("downloading tiny, ")


def test_a_file_that_a_person_put_there_is_taken_when_its_hash_is_right(tmp_path: Path) -> None:
    models = store(tmp_path)
    models.models_dir.mkdir()
    (models.models_dir / "tiny.gguf").write_bytes(WEIGHTS)
    assert models.path("tiny") is not None


def test_a_verified_file_is_not_read_again_until_it_changes(
    tmp_path: Path, local_file: FileSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = store(tmp_path, local_file)
    path = models.pull("tiny")
    opened: list[str] = []
    real_open = Path.open

    def watched(self: Path, *args: object, **options: object) -> object:
        opened.append(self.name)
        return real_open(self, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", watched)
    assert models.path("tiny") == path
    assert path.name not in opened
    path.write_bytes(WEIGHTS[::-1])
    assert models.path("tiny") is None


def test_a_file_that_is_not_the_known_one_is_set_aside_and_replaced_and_the_log_says_so(
    tmp_path: Path, local_file: FileSource, caplog: pytest.LogCaptureFixture
) -> None:
    models = store(tmp_path, local_file)
    models.models_dir.mkdir()
    (models.models_dir / "tiny.gguf").write_bytes(b"something else")
    assert models.path("tiny") is None
    assert models.pull("tiny").read_bytes() == WEIGHTS
    assert (models.models_dir / "tiny.gguf.wrong-hash").read_bytes() == b"something else"
    assert "the file that was there is not the known one; moved to" in caplog.text


@pytest.mark.parametrize("weights", [WEIGHTS[::-1], WEIGHTS * 2])
def test_a_wrong_file_that_a_person_gave_is_refused_and_left_alone(
    tmp_path: Path, weights: bytes
) -> None:
    given = tmp_path / "given.bin"
    given.write_bytes(weights)
    with pytest.raises(PullFailedError) as raised:
        store(tmp_path).pull("tiny", sources=[FileSource(given)])
    words = raised.value.problem().in_words()
    assert "the copy was refused, and the file itself left as it is" in words
    assert "network" not in words
    assert "deleted" not in words
    assert given.read_bytes() == weights


def test_a_source_with_another_file_is_said_to_be_wrong_and_the_next_one_is_tried(
    tmp_path: Path, local_file: FileSource
) -> None:
    other = tmp_path / "other.bin"
    other.write_bytes(WEIGHTS[::-1])
    models = store(tmp_path, FileSource(other), local_file)
    assert models.pull("tiny").read_bytes() == WEIGHTS
    alone = store(tmp_path / "alone", FileSource(other))
    with pytest.raises(PullFailedError, match="another file than the known one") as raised:
        alone.pull("tiny")
    assert raised.value.wrong_hash
    assert alone.path("tiny") is None
    assert left_over(tmp_path / "alone") == []


def test_when_all_sources_fail_each_one_says_why(tmp_path: Path) -> None:
    sources = [FileSource(tmp_path / "one"), FileSource(tmp_path / "two")]
    with pytest.raises(PullFailedError) as raised:
        store(tmp_path, *sources).pull("tiny")
    assert "one: it cannot be read" in raised.value.detail
    assert "two: it cannot be read" in raised.value.detail
    assert "rondo models pull tiny" in raised.value.advice
    assert not raised.value.wrong_hash


def test_another_source_can_be_named_for_one_pull(tmp_path: Path, local_file: FileSource) -> None:
    models = store(tmp_path, FileSource(tmp_path / "none"))
    assert models.pull("tiny", sources=[local_file]).read_bytes() == WEIGHTS


def test_a_disk_without_room_is_noticed_before_anything_is_fetched(
    tmp_path: Path, local_file: FileSource
) -> None:
    models = store(tmp_path, local_file, free=1_000_000)
    with pytest.raises(ModelStoreError, match="1 MB are free") as raised:
        models.pull("tiny")
    assert "RONDO_MODELS_DIR" in raised.value.advice
    assert "rondo models use" not in raised.value.advice  # none is smaller
    assert left_over(tmp_path) == []


def test_where_a_smaller_model_has_room_it_is_named(tmp_path: Path) -> None:
    models = ModelStore(tmp_path / "models", free_bytes=lambda folder: 900_000_000)
    with pytest.raises(ModelStoreError, match="900 MB are free") as raised:
        models.pull("qwen2.5-coder-1.5b")
    assert "`rondo models use qwen2.5-coder-0.5b` takes 491 MB" in raised.value.advice


def test_the_room_that_is_still_needed_is_told_before_and_takes_off_what_is_here(
    tmp_path: Path,
) -> None:
    models = store(tmp_path, free=1_000_000)
    whole, free = models.room_needed("tiny")
    assert whole > len(WEIGHTS)
    assert free == 1_000_000
    partial = models.models_dir / ".partial" / "tiny" / "wheels"
    partial.mkdir(parents=True)
    (partial / "wheels.bin").write_bytes(WEIGHTS[:1_000_000])
    assert models.room_needed("tiny") == (whole - 1_000_000, free)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, local_file: FileSource) -> None:
    (tmp_path / "models").write_text("in the way")
    with pytest.raises(ModelStoreError, match="models"):
        store(tmp_path, local_file).pull("tiny")


def test_an_unknown_name_says_which_are_known(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as raised:
        store(tmp_path).pull("huge")
    assert "tiny" in raised.value.advice


def test_two_pulls_at_once_fetch_once(tmp_path: Path, local_file: FileSource) -> None:
    fetched: list[PullProgress] = []
    outcomes: list[Path] = []
    barrier = threading.Barrier(4)

    def pull() -> None:
        models = store(tmp_path, local_file)  # as another process would have its own
        barrier.wait()
        outcomes.append(models.pull("tiny", progress=fetched.append))

    threads = [threading.Thread(target=pull) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(outcomes)) == 1
    assert outcomes[0].read_bytes() == WEIGHTS
    whole = [p for p in fetched if p.stage == "downloading" and p.done_bytes == len(WEIGHTS)]
    assert len(whole) == 1


def test_a_pull_that_waits_for_another_one_can_be_cancelled(
    tmp_path: Path, local_file: FileSource
) -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold(_: PullProgress) -> None:
        inside.set()
        leave.wait(30)

    holder = threading.Thread(
        target=lambda: store(tmp_path, local_file).pull("tiny", progress=hold)
    )
    holder.start()
    inside.wait(30)
    with pytest.raises(PullCancelledError):
        store(tmp_path, local_file).pull("tiny", cancelled=lambda: True)
    leave.set()
    holder.join()
    assert store(tmp_path).path("tiny") is not None


def test_the_largest_of_the_smaller_models_that_are_here_is_a_way_without_fetching(
    tmp_path: Path, local_file: FileSource
) -> None:
    models = store(tmp_path, local_file)
    tiny = known_model("tiny", models.catalog)
    for name, longer in (("wanted", 2), ("larger", 3)):
        models.catalog += (replace(tiny, name=name, size=tiny.size + longer),)
    assert models.smaller_here("wanted") is None
    assert models.way_without("wanted") == ""
    models.pull("tiny")
    (models.models_dir / "wanted.gguf").write_bytes(b"not the known one")
    assert models.smaller_here("tiny") is None
    assert models.smaller_here("larger") == "tiny"
    with pytest.raises(PullFailedError) as raised:
        models.pull("wanted", sources=[HttpSource("http://127.0.0.1:9/weights")])
    assert "Check the network" in raised.value.advice
    assert "`rondo models use tiny` stays with the smaller one" in raised.value.advice
