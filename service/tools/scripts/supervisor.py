"""The parent of a script: a process of its own, which ends the script when the daemon has gone.

It is run by its path (``python -I -S supervisor.py FD``), so it knows the standard library only,
and imports no more of that than it needs: each run waits for its start. Over the socket ``FD`` it
is given one line of JSON, ``{"command": […], "env": {…}, "folder": …, "limits": {…}}``, the folder
empty where there is none to remove, limits by the names of the module `resource`, and answers with
lines:
``{"group": 123}`` once the script runs, in a process group of that number, or ``{"errno": 8}``
where it cannot be started; and ``{"exit": 0}`` when it has ended (negative: by that signal).

When the other end of the socket is closed, by the daemon or by the kernel after its death, the
script's whole group is killed and the folder is removed. Should the supervisor itself be killed,
the kernel kills the script (on Linux), and the daemon its group.
"""

# `pathlib` and `contextlib` would make each start longer.
# ruff: noqa: PTH101, PTH123, SIM105

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any, NoReturn

_PDEATHSIG = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_BUSY_SECONDS = 2.0


def remove(folder: str) -> None:
    """Remove a folder that may hold folders which nobody may write. What cannot be, stays."""
    for parent, _, _ in os.walk(folder):
        try:
            os.chmod(parent, 0o700)
        except OSError:
            pass
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


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
    _adopt()
    started = _start(request["command"], request["env"], request["limits"])
    if started < 0:
        _tell(line, errno=-started)
        return
    group = started
    _close_standard_streams()
    _tell(line, group=group)
    while (exit_code := _exit_code(group)) is None:
        readable, _, _ = select.select([line.fileno(), woken], [], [])
        if woken in readable:
            os.read(woken, 4096)
            _bury(group)
        if line.fileno() in readable and not _received(line):
            _kill(group, signal.SIGKILL)
            os.waitpid(group, 0)
            _reap(group)
            if request["folder"]:
                remove(request["folder"])
            return
    _tell(line, exit=exit_code)


def _adopt() -> None:
    """Become the parent of what the script leaves behind (on Linux): it is gone when it is killed,
    and does not wait for whoever else would bury it, such as a container's first process."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)


def _bury(group: int) -> None:
    """Bury what was adopted and has ended, while the script itself goes on (on Linux)."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            children = [int(number) for number in file.read().split()]
    except OSError:
        return  # no such kernel: nothing was adopted, or it is buried when we end
    for child in children:
        if child != group:
            try:
                os.waitpid(child, os.WNOHANG)
            except ChildProcessError:
                pass


def _reap(group: int) -> None:
    """Wait for what was killed of a group."""
    try:
        while True:
            os.waitpid(-group, 0)
    except ChildProcessError:
        pass  # nobody is left


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
        _reap(group)
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
