"""Confines itself with Landlock and seccomp, and becomes a program: the last step before it.

It is run by its path (``python -I -S launcher.py PLAN RULE… -- COMMAND…``), so it knows the
standard library only, and imports no more of that than it needs: each run waits for its start. It
decides nothing: ``PLAN`` is JSON,

- ``"handled": [files, network, scopes]``, what Landlock shall rule over, by the bits of
  ``struct landlock_ruleset_attr``;
- ``"filters"`` of system calls in base64, of which the first that the kernel takes is used;
- ``"keeper"``, ``[KEEPER, CALLS, NUMBER]``: who answers the calls that the first filter hands over
  (`rights_keeper.py`), and the number of the system call ``seccomp``; or null;
- ``"port"``, the only one of TCP that it may connect to, and ``"proxy"``, ``[FORWARDER, SOCKET]``:
  who listens there (`forwarder.py`), and to where that leads; or null twice;
- ``"processes"``, how many there may be at once, ``"more"`` whether on top of those that the user
  has; ``"umask"``, or null, for where nobody changes rights of files.

A ``RULE`` is ``BITS:PATH``, the rights that are granted on a path and all below it; one that is not
there is left out. A path's last part is not followed where it is a link. What goes wrong is told on
standard error, with exit code 125, and the program is not run; 126 where it cannot be started.
"""

# `pathlib` would make each start longer.
# ruff: noqa: PTH116, PTH208

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import stat
import struct
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import socket

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on all machines
_PATH_BENEATH, _NET_PORT, _MAKE_FILES = 1, 2, 1 << 8
_SET_FILTER, _NEW_LISTENER = 1, 8  # of <linux/seccomp.h>
_CONNECT_TCP = 2
_OF_FILES = 0xC007  # what can be granted on a single file: run, write, read, truncate, ioctl
_PDEATHSIG, _SECCOMP, _CAPBSET_DROP, _NO_NEW_PRIVS, _CAP_AMBIENT = 1, 22, 24, 38, 47  # PR_*
_CHILD_SUBREAPER = 36
_FILTER = 2  # SECCOMP_MODE_FILTER
_CAPABILITIES_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_BUSY_SECONDS = 2.0

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> NoReturn:
    """Do as the plan says."""
    try:
        plan = json.loads(sys.argv[1])
        end = sys.argv.index("--")
        command = sys.argv[end + 1 :]
        _restore_signals()
        os.closerange(3, 2**31 - 1)
        _drop_capabilities()
        _confine(plan, sys.argv[2:end])
    except (OSError, ValueError, LookupError, TypeError) as error:
        _fail(125, f"it could not be confined: {error!r}")
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            os.execv(command[0], command)
        except OSError as failure:
            # Somebody who is just about to become another program still has the file open.
            if failure.errno != errno.ETXTBSY or time.monotonic() > until:
                _fail(126, f"{command[0]} could not be started: {failure.strerror}")
            time.sleep(0.01)


def _confine(plan: dict[str, Any], rules: list[str]) -> None:
    """Give up rights, the strongest last: each step needs what the next ones take away."""
    _prctl(_PDEATHSIG, signal.SIGKILL)
    if plan["proxy"] is not None:
        _start_forwarder(plan["port"], *plan["proxy"])
    line, seccomp = None, 0
    if plan["keeper"] is not None:
        keeper, calls, seccomp = plan["keeper"]
        line = _leave_keeper(keeper, calls, rules)
    _limit_processes(plan["processes"], more=plan["more"])
    _prctl(_NO_NEW_PRIVS, 1)
    _restrict(plan["handled"], rules, plan["port"])
    programs = [*map(_program, plan["filters"])]
    if line is None or not _filter_and_hand_over(programs[0], line, seccomp):
        _prctl(_SECCOMP, _FILTER, programs[-1][0])
        if plan["umask"] is not None:
            os.umask(plan["umask"])


def _restore_signals() -> None:
    """Python ignores some, and what is ignored stays so in the program."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def _limit_processes(most: int, *, more: bool) -> None:
    """The kernel counts those of the user, threads included, within the namespace of users."""
    import resource

    bound = most + (_processes_of_user() if more else 0)
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if hard != resource.RLIM_INFINITY:
        bound = min(bound, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (bound, bound))


def _processes_of_user() -> int:
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                threads = os.stat(f"/proc/{name}/task")
            except OSError:
                continue  # it has just ended
            if threads.st_uid == os.getuid():
                count += threads.st_nlink - 2  # a folder for each, beside `.` and `..`
    return count


def _drop_capabilities() -> None:
    """All of them, so that a program of root's can do what a user's can."""
    _prctl(_CAP_AMBIENT, 4, needed=False)  # PR_CAP_AMBIENT_CLEAR_ALL
    for number in range(64):  # without the right to do so there is none to be dropped, either
        _prctl(_CAPBSET_DROP, number, needed=False)
    header = struct.pack("Ii", _CAPABILITIES_VERSION, 0)
    _check(_libc.capset(header, bytes(24)), "capset")


def _start_forwarder(port: int, forwarder: str, path: str) -> None:
    """Listen at a port, and leave what comes to a process of its own, which nobody waits for."""
    import socket

    listening = socket.create_server(("127.0.0.1", port), backlog=100)
    child = os.fork()
    if child != 0:
        listening.close()
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            listening.set_inheritable(True)
            program = (sys.executable, "-I", "-S", forwarder, str(listening.fileno()), path)
            os.execv(program[0], program)
    finally:
        os._exit(0)


def _restrict(handled: list[int], rules: list[str], port: int | None) -> None:
    """Have Landlock refuse what the rules do not grant."""
    # An older kernel knows a shorter structure, and what stands behind its end must be 0.
    size = 24 if handled[2] else 16 if handled[1] else 8
    attributes = struct.pack("QQQ", *handled)[:size]
    ruleset = _syscall(_CREATE_RULESET, attributes, size, 0)
    for rule in rules:
        bits, _, path = rule.partition(":")
        try:
            opened = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
                continue
            raise
        granted = int(bits)
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            granted &= _OF_FILES
        beneath = struct.pack("=Qi", granted, opened)
        if granted:
            _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, beneath, 0)
        os.close(opened)
    if port is not None and handled[1]:
        _syscall(_ADD_RULE, ruleset, _NET_PORT, struct.pack("QQ", _CONNECT_TCP, port), 0)
    _syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _program(encoded: str) -> tuple[bytes, object]:
    """A filter as ``struct sock_fprog``, and the memory that this points to."""
    import binascii

    steps = ctypes.create_string_buffer(binascii.a2b_base64(encoded))
    return struct.pack("HxxxxxxQ", (len(steps) - 1) // 8, ctypes.addressof(steps)), steps


def _leave_keeper(keeper: str, calls: str, rules: list[str]) -> socket.socket:
    """Go on in a child: what this process was becomes its keeper, and ends as the child does.

    Returns:
        The line to the keeper.
    """
    import socket

    ours, theirs = socket.socketpair()
    _prctl(_CHILD_SUBREAPER, 1)  # of orphans it could not read which file they name
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is meant for the program, and reaches both
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _prctl(_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the kernel was told
            os._exit(1)
        theirs.close()
        return ours
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        theirs.set_inheritable(True)
        split = [rule.partition(":") for rule in rules]
        folders = [path for bits, _, path in split if int(bits) & _MAKE_FILES]
        words = (str(theirs.fileno()), str(child), calls, *folders)
        os.execv(sys.executable, (sys.executable, "-I", "-S", keeper, *words))
    finally:
        os._exit(125)


def _filter_and_hand_over(program: tuple[bytes, object], line: socket.socket, seccomp: int) -> bool:
    """Have the kernel filter calls, and the keeper answer some; False where it does not let us."""
    import socket

    try:
        listener = _syscall(seccomp, _SET_FILTER, _NEW_LISTENER, program[0])
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.EINVAL, errno.ENOSYS):  # a listener is there already
            return False
        raise
    socket.send_fds(line, [b"x"], [listener])
    return True


def _prctl(option: int, value: int, more: bytes | None = None, *, needed: bool = True) -> None:
    # Whole words, as the kernel refuses some calls with anything in the arguments without meaning.
    before, nothing = ctypes.c_ulong(value), ctypes.c_ulong(0)
    result = _libc.prctl(ctypes.c_int(option), before, more, nothing, nothing)
    if needed:
        _check(result, f"prctl {option}")


def _syscall(number: int, *arguments: int | bytes) -> int:
    words = [each if isinstance(each, bytes) else ctypes.c_long(each) for each in arguments]
    _libc.syscall.restype = ctypes.c_long
    result: int = _libc.syscall(ctypes.c_long(number), *words)
    return _check(result, f"system call {number}")


def _check(result: int, name: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def _fail(code: int, words: str) -> NoReturn:
    os.write(2, f"rondo: {words}\n".encode("utf-8", "replace"))
    os._exit(code)


if __name__ == "__main__":
    main()
