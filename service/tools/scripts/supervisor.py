"""The parent of a script: a process of its own, which ends the script when the daemon has gone.

It is run by its path (``python -I -S supervisor.py FD``), so it knows the standard library only,
and imports no more of that than it needs: each run waits for its start. Over the socket ``FD`` it
is given one line of JSON, ``{"command": […], "env": {…}, "folder": …, "limits": {…}, "bounds":
{…}}``, the folder empty where there is none to remove, limits by the names of the module
`resource`, bounds as in `_exceeded`, and answers with lines: ``{"group": 123}`` once the script
runs, in a process group of that number, or ``{"errno": 8}`` where it cannot be started; and
``{"exit": 0}`` when it has ended (negative: by that signal), with ``"exceeded"``, the name of the
bound, where that is why.

When the other end of the socket is closed, by the daemon or by the kernel after its death, the
script is killed with all that it has started, and the folder is removed. On Linux that takes in
what has left the script's group: orphans become the supervisor's children. Should the supervisor
itself be killed, the kernel kills the script (on Linux), and the daemon its group.
"""

# `pathlib` and `contextlib` would make each start longer.
# ruff: noqa: PTH101, PTH110, PTH116, PTH123, PTH208, SIM105

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import stat
import sys
import time
from typing import Any, NoReturn

_PDEATHSIG, _CHILD_SUBREAPER = 1, 36  # PR_SET_* of <sys/prctl.h>
_BUSY_SECONDS = 2.0
_LOOK_SECONDS = 0.1  # between two looks at what a run uses up, or five times what one takes
_END_SECONDS = 5.0  # for killing what a run has left, which may start more meanwhile
_LEAST_BYTES = 1024  # that an empty file or a folder takes, in some way, too


def remove(folder: str) -> None:
    """Remove a folder that may hold folders which nobody may write. What cannot be, stays."""
    import shutil

    waiting = [folder]
    while waiting:
        parent = waiting.pop()
        try:
            os.chmod(parent, 0o700)
            with os.scandir(parent) as entries:
                waiting += [each.path for each in entries if each.is_dir(follow_symlinks=False)]
        except OSError:
            pass
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        pass
    if os.path.exists(folder):  # nested deeper than Python goes
        import subprocess

        subprocess.run(("rm", "-rf", "--", folder), capture_output=True, check=False)


def main() -> None:
    """Run what the daemon asks for, and end with it."""
    line = socket.socket(fileno=int(sys.argv[1]))
    line.set_inheritable(False)
    with line.makefile("rb") as reader:
        request = json.loads(reader.readline() or "null")
    if request is None:
        return  # the daemon is gone already
    # From here on a signal wakes the waiting below; without handlers it would end us, or be lost.
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    group = 0

    def pass_on(number: int, _: object) -> None:
        if group:
            _kill(group, signal.Signals(number))

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    _adopt_orphans()
    started = _start(request["command"], request["env"], request["limits"])
    if started < 0:
        _tell(line, errno=-started)
        return
    group = started
    _close_standard_streams()
    _tell(line, group=group)
    bounds = request.get("bounds") or {}
    exceeded, pause, last = "", _LOOK_SECONDS, time.monotonic()
    while (exit_code := _exit_code(group)) is None:
        readable, _, _ = select.select([line.fileno(), woken], [], [], pause if bounds else None)
        if woken in readable:
            os.read(woken, 4096)
        if line.fileno() in readable and not _received(line):
            _end(group)
            if request["folder"]:
                remove(request["folder"])
            return
        _bury(group)
        begun = time.monotonic()
        if bounds and begun - last >= pause:
            exceeded = _exceeded(bounds)
            last = time.monotonic()
            pause = max(_LOOK_SECONDS, 5 * (last - begun))
            if exceeded:
                _end(group)
                exit_code = -signal.SIGKILL
                break
    _kill_descendants()
    _tell(line, exit=exit_code, exceeded=exceeded)


def _end(group: int) -> None:
    """Kill a run, and fetch its first process."""
    _kill(group, signal.SIGKILL)
    os.waitpid(group, 0)
    _kill_descendants()


def _adopt_orphans() -> None:
    """What loses its parent becomes our child, in whatever group it is; on Linux."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)


def _start(command: list[str], env: dict[str, str], limits: dict[str, int]) -> int:
    """Start a command as the leader of a new group.

    Returns:
        The number of its process; or, negative, the error number, where it cannot be started.
    """
    failed, failing = os.pipe()  # closed by a start that succeeds
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(failed)
        _become(command, env, limits, parent, failing)
    os.close(failing)
    with os.fdopen(failed, "rb") as words:
        number = words.read()
    if not number:
        return child
    os.waitpid(child, 0)
    return -int(number)


def _become(
    command: list[str], env: dict[str, str], limits: dict[str, int], parent: int, failing: int
) -> NoReturn:
    """In the child, which has one thread: the rest of its life is the command's."""
    try:
        os.setpgid(0, 0)
        if sys.platform == "linux":
            import ctypes

            ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:  # it died before the kernel was told
                os._exit(1)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        _limit(limits)
        until = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                os.execve(command[0], command, env)
            except OSError as error:
                # Another child of the daemon, not yet become what it shall be, still has the file
                # open that was copied just now.
                if error.errno != errno.ETXTBSY or time.monotonic() > until:
                    os.write(failing, b"%d" % (error.errno or errno.EIO))
                    os._exit(1)
                time.sleep(0.01)
    finally:
        os._exit(1)


def _limit(limits: dict[str, int]) -> None:
    """Bound what a program may use up, by the names of `resource`; never above what we may."""
    import resource

    for name, most in limits.items():
        kind = getattr(resource, name)
        _, hard = resource.getrlimit(kind)
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (bound, bound))


def _close_standard_streams() -> None:
    """They end when the script, and nobody else, has closed them."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _exit_code(group: int) -> int | None:
    """How the first process of a group ended; None while it runs. What it left running is killed,
    before the number of the group can become another's."""
    if hasattr(os, "waitid"):
        if os.waitid(os.P_PID, group, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        _kill(group, signal.SIGKILL)
        _, status = os.waitpid(group, 0)
    else:  # macOS, before Python 3.13
        process, status = os.waitpid(group, os.WNOHANG)
        if not process:
            return None
        _kill(group, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status)


def _kill(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left, or only processes that have become another user's


def _children(process: int) -> list[int]:
    """The children of a process, dead ones that nobody has fetched among them; none where the
    kernel does not tell."""
    numbers: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children") as words:
                numbers += map(int, words.read().split())
    except OSError:
        pass  # it has just ended
    return numbers


def _descendants() -> list[int]:
    numbers = _children(os.getpid())
    for number in numbers:  # grows meanwhile
        numbers += _children(number)
    return numbers


def _bury(group: int) -> None:
    """Fetch the orphans that have ended."""
    for child in _children(os.getpid()):
        if child != group:
            try:
                os.waitpid(child, os.WNOHANG)
            except ChildProcessError:
                pass


def _kill_descendants() -> None:
    """Kill all that a run has left, whatever group it is in."""
    deadline = time.monotonic() + _END_SECONDS
    while numbers := _descendants():
        if time.monotonic() > deadline:
            return
        try:
            os.setpriority(os.PRIO_PROCESS, 0, -20)  # many can be in the way; for root only
        except OSError:
            pass
        for number in numbers:
            try:
                os.kill(number, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        _bury(0)


def _exceeded(bounds: dict[str, Any]) -> str:
    """Which of the bounds ``processes``, ``memory_bytes`` and ``scratch_bytes`` a run is beyond;
    empty for none.

    Counted are all its processes, their memory, and what lies in the folder ``scratch``, with the
    files that have no name any more and are still open, those in memory among them.
    """
    processes = _descendants()
    if len(processes) > bounds["processes"]:
        return "processes"
    # What two of them share is counted once, which takes longer to find out.
    for file, names in (
        ("status", ("RssAnon", "RssShmem")),
        ("smaps_rollup", ("Pss_Anon", "Pss_Shmem")),
    ):
        if (
            sum(_memory(f"/proc/{each}/{file}", names) for each in processes)
            <= bounds["memory_bytes"]
        ):
            break
    else:
        return "memory_bytes"
    return "scratch_bytes" if _used(bounds["scratch"], processes) > bounds["scratch_bytes"] else ""


def _memory(path: str, names: tuple[str, ...]) -> int:
    """The sum of some lines of a file that tells kilobytes, in bytes."""
    try:
        with open(path) as lines:
            words = [line.split() for line in lines]
    except OSError:
        return 0  # it has just ended
    return sum(1024 * int(each[1]) for each in words if each[0].rstrip(":") in names)


def _used(folder: str, processes: list[int]) -> int:
    """How many bytes are taken by a folder, and by files without a name of some processes."""
    sizes: dict[tuple[int, int], int] = {}

    def count(path: str, *, nameless: bool) -> None:
        try:
            status = os.stat(path, follow_symlinks=nameless)
        except OSError:
            return  # it has just gone
        if not nameless or (stat.S_ISREG(status.st_mode) and not status.st_nlink):
            size = max(512 * status.st_blocks, _LEAST_BYTES)
            sizes[status.st_dev, status.st_ino] = size

    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count(entry.path, nameless=False)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue  # it has just gone
        except OSError:
            return sys.maxsize  # nested or closed so that nobody can see how much it holds
    for process in processes:
        try:
            descriptors = os.listdir(f"/proc/{process}/fd")
        except OSError:
            continue
        for descriptor in descriptors:
            count(f"/proc/{process}/fd/{descriptor}", nameless=True)
    return sum(sizes.values())


def _received(line: socket.socket) -> bool:
    try:
        return bool(line.recv(4096))
    except ConnectionError:
        return False


def _tell(line: socket.socket, **words: Any) -> None:
    try:
        line.sendall(json.dumps(words).encode() + b"\n")
    except OSError:
        pass  # the daemon is gone; what follows notices


if __name__ == "__main__":
    main()
