"""A script ends with the daemon that runs it, however that ends."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from service.config_sections import SandboxSetting
from service.domain.errors import ConfigurationError
from service.tools.sandbox.levels import sandbox_for
from tests.support.daemon import Running, serving

pytestmark = pytest.mark.slow

SCRIPT = """
== when run
call: run_script {"name": "long.py"}
--
text: Done.
"""
UNCONFINED = {"RONDO_TOOLS__SCRIPTS": "true", "RONDO_TOOLS__SANDBOX": "none"}
"""In a sandbox, the kernel ends all processes with the first; here the supervisor has to."""
LONG = """
import os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
# a child of its own, and a child of that
nested = "import subprocess as s, time as t; p = s.Popen(['sleep', '1000']);"
nested += "print(p.pid, flush=True); t.sleep(1000)"
child = subprocess.Popen([sys.executable, "-c", nested], stdout=subprocess.PIPE, text=True)
numbers = [os.getpid(), os.getppid(), child.pid, int(child.stdout.readline())]
note = pathlib.Path({note!r})
note.with_suffix(".new").write_text(" ".join(map(str, numbers)))
note.with_suffix(".new").replace(note)
time.sleep(1000)
"""


BEATING = """
import os, pathlib, time
if os.fork() == 0:
    os.setsid()  # out of the group that is killed
note = pathlib.Path({note!r})
for number in range(100_000):
    new = note.with_name(f"{os.getpid()}.new")
    new.write_text(str(number))
    new.replace(note.with_name(f"{os.getpid()}.beat"))
    time.sleep(0.02)
"""


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def until(condition: object, seconds: float = 60) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


def begun(daemon: Running, folder: Path, note: Path) -> list[int]:
    """Have the script run; its process, its supervisor, its child and its grandchild."""
    (folder / "scripts").mkdir(exist_ok=True)
    (folder / "scripts" / "long.py").write_text(LONG.replace("{note!r}", repr(str(note))))
    with daemon.client(folder) as client:
        asked = client.post("/v1/send", json={"message": "Run it"}).json()
        path = f"/v1/run-loops/{asked['run_loop_id']}/input"
        answer = {"approved": True, "request_id": asked["input_required"]["request_id"]}
        assert client.post(path, json=answer).status_code == 200
    until(note.exists)
    processes = [int(word) for word in note.read_text().split()]
    assert all(map(is_alive, processes))
    return processes


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_script_and_its_children_end_with_the_daemon_and_leave_nothing(
    tmp_path: Path, end: signal.Signals
) -> None:
    folder = tmp_path / "data"
    with serving(folder, script=SCRIPT, settings=UNCONFINED) as daemon:
        processes = begun(daemon, folder, tmp_path / "note")
        daemon.process.send_signal(end)
        daemon.process.wait(60)
        until(lambda: not any(map(is_alive, processes)))
        until(lambda: not list((folder / "script-runs").iterdir()))


def test_a_script_ends_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with serving(folder, script=SCRIPT, settings=UNCONFINED) as daemon:
        processes = begun(daemon, folder, tmp_path / "note")
        os.kill(processes[1], signal.SIGKILL)
        until(lambda: not any(map(is_alive, processes)))
        with daemon.client(folder) as client:
            until(lambda: client.get("/v1/run-loops").json()["run_loops"][0]["status"] == "idle")
        assert not list((folder / "script-runs").iterdir())


def test_what_a_power_cut_left_of_a_run_goes_with_the_next_one(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    left = folder / "script-runs" / "rondo-script-old" / "scripts"
    left.mkdir(parents=True)
    (left / "s.sh").touch()
    left.chmod(0o500)
    with serving(folder, script=SCRIPT, settings=UNCONFINED) as daemon:
        processes = begun(daemon, folder, tmp_path / "note")
        assert not left.exists()
        daemon.process.kill()
        until(lambda: not any(map(is_alive, processes)))


def level_of(setting: SandboxSetting) -> str:
    try:
        return sandbox_for(setting).level
    except ConfigurationError:
        return "none"


@pytest.mark.parametrize("setting", ["auto", "landlock"])
def test_in_a_sandbox_what_left_the_group_ends_with_the_daemon_too(
    tmp_path: Path, setting: SandboxSetting
) -> None:
    if level_of(setting) == "none":
        pytest.skip("this sandbox does not work here")
    folder, granted = tmp_path / "data", tmp_path / "granted"
    granted.mkdir()
    settings = {
        "RONDO_TOOLS__SCRIPTS": "true",
        "RONDO_TOOLS__SANDBOX": setting,
        "RONDO_TOOLS__SCRIPT_WRITE": json.dumps([str(granted)]),
    }
    with serving(folder, script=SCRIPT, settings=settings) as daemon:
        (folder / "scripts").mkdir()
        code = BEATING.replace("{note!r}", repr(str(granted / "note")))
        (folder / "scripts" / "long.py").write_text(code)
        with daemon.client(folder) as client:
            asked = client.post("/v1/send", json={"message": "Run it"}).json()
            path = f"/v1/run-loops/{asked['run_loop_id']}/input"
            answer = {"approved": True, "request_id": asked["input_required"]["request_id"]}
            assert client.post(path, json=answer).status_code == 200
        until(lambda: len(list(granted.glob("*.beat"))) == 2)
        daemon.process.kill()
        daemon.process.wait(60)
        until(lambda: not list((folder / "script-runs").iterdir()))
        beats = {each.name: each.read_text() for each in granted.glob("*.beat")}
        time.sleep(0.5)
        assert beats == {each.name: each.read_text() for each in granted.glob("*.beat")}
