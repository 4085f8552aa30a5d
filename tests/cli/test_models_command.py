"""`rondo models`: which are known, and which is used."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from service.models.catalog import SMALL_MODEL, known_model
from tests.support.daemon import environment, serving

LARGE = "qwen2.5-coder-1.5b"
pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A data folder, beside models that only look as if they were verified: none is loaded here."""
    for name in (SMALL_MODEL, LARGE):
        weights = tmp_path / "models" / f"{name}.gguf"
        weights.parent.mkdir(exist_ok=True)
        with weights.open("wb") as file:
            file.truncate(known_model(name).size)
        stat = weights.stat()
        stamp = {
            "sha256": known_model(name).sha256,
            "size": stat.st_size,
            "mtime_ns": stat.st_mtime_ns,
        }
        weights.with_name(f"{weights.name}.json").write_text(json.dumps(stamp))
    return tmp_path / "home"


def rondo(home: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    variables = environment(
        home, RONDO_MODELS_DIR=str(home.parent / "models"), RONDO_SERVER__PORT="1", COLUMNS="200"
    )
    return subprocess.run(
        [sys.executable, "-m", "service.cli", "models", *arguments],
        env={**variables, **settings},
        cwd=home.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def in_use(home: Path, **settings: str) -> list[str]:
    models = json.loads(rondo(home, "list", "--json", **settings).stdout)
    return [model["name"] for model in models if model["in_use"]]


def test_the_list_marks_what_is_in_use_and_what_the_machine_carries(home: Path) -> None:
    models = json.loads(rondo(home, "list", "--json").stdout)
    (choice,) = (model["name"] for model in models if model["is_machines_choice"])
    assert in_use(home) == [choice]
    shown = rondo(home).stdout
    assert rondo(home, "list").stdout == shown
    (line,) = (line for line in shown.splitlines() if "in use" in line)
    assert line.startswith(choice)
    assert "the machine's choice" in line
    assert known_model(LARGE).description in " ".join(shown.split())


def test_the_machines_choice_does_not_depend_on_what_is_here(home: Path) -> None:
    (choice,) = in_use(home)
    (home.parent / "models" / f"{choice}.gguf").unlink()
    assert in_use(home) == [choice]
    stderr = " ".join(rondo(home).stderr.split())
    assert ("`rondo models use qwen2.5-coder-0.5b` stays with" in stderr) == (choice == LARGE)


def test_another_model_is_used_from_then_on_until_the_machine_chooses_again(home: Path) -> None:
    home.mkdir()
    file = home / "rondo.toml"
    file.write_text("# mine\n[llm]\ntemperature = 0.5  # warm\n")
    for name in (LARGE, SMALL_MODEL):
        done = rondo(home, "use", name)
        assert done.returncode == 0, done.stderr
        assert known_model(name).description in " ".join(done.stderr.split())
        assert in_use(home) == [name]
    assert "# mine" in file.read_text()
    assert "# warm" in file.read_text()
    assert rondo(home, "use", "auto").returncode == 0
    assert tomllib.loads(file.read_text()) == {"llm": {"temperature": 0.5}}


def test_the_model_of_an_endpoint_makes_way_and_is_told(home: Path) -> None:
    home.mkdir()
    file = home / "rondo.toml"
    file.write_text('[llm]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "far"\n')
    done = rondo(home, "use", LARGE)
    assert "So far, far at http://127.0.0.1:9/v1 answered." in done.stderr
    assert '-model = "far"' in done.stderr
    assert in_use(home) == [LARGE]


def test_a_variable_that_has_the_last_word_is_told(home: Path) -> None:
    done = rondo(home, "use", LARGE, RONDO_LLM__MODEL=SMALL_MODEL)
    assert done.returncode == 0
    assert "RONDO_LLM__MODEL comes before the file" in done.stderr
    assert in_use(home) == [LARGE]


def test_an_unknown_model_changes_nothing(home: Path) -> None:
    done = rondo(home, "use", "huge")
    assert done.returncode == 1
    assert LARGE in done.stderr
    assert not (home / "rondo.toml").exists()


def test_weights_that_cannot_be_fetched_change_nothing_unless_it_is_left_to_the_daemon(
    home: Path,
) -> None:
    unreachable = {"HF_ENDPOINT": "http://127.0.0.1:9", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    done = rondo(home, "use", "smollm2-135m", **unreachable)
    assert done.returncode == 1
    assert not (home / "rondo.toml").exists()
    done = rondo(home, "use", "smollm2-135m", "--no-pull", **unreachable)
    assert done.returncode == 0
    assert "not here yet" in done.stderr
    assert in_use(home) == ["smollm2-135m"]


def test_a_daemon_that_runs_is_told_to_work_with_its_own_until_it_starts_again(home: Path) -> None:
    with serving(home) as daemon:
        port = daemon.url.rpartition(":")[2]
        done = rondo(home, "use", LARGE, RONDO_SERVER__PORT=port)
    assert "until it is started again" in done.stderr
