"""Changes the rights of files for a program that the kernel cannot keep to some folders in that.

Landlock does not rule over ``chmod``. So a filter of system calls hands such calls to this process,
the program's parent, which carries them out where the program may write, and refuses the others.
What it looks at is what it changes: an open file, found out by the kernel to lie in a folder.

It is run by its path (``python -I -S rights_keeper.py FD PROCESS CALLS FOLDER…``): from the socket
``FD`` it is given the filter's listener, see ``Documentation/userspace-api/seccomp_filter.rst`` of
Linux; ``CALLS`` is JSON, names of calls by their numbers. It ends as the program ends.
"""

# ruff: noqa: PTH101, PTH115

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import signal
import socket
import stat
import struct
import sys

_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102  # SECCOMP_IOCTL_NOTIF_*
_NOTIFICATION, _ANSWER = "=QIIiIQ6Q", "=QqiI"
_CWD, _NO_FOLLOW, _EMPTY_PATH = -100, 0x100, 0x1000  # AT_* of <linux/fcntl.h>
_LONGEST_PATH = 4096
_LOOK_MILLISECONDS = 1000


def main() -> None:
    """Serve until the program ends, and end like it."""
    program, calls, folders = int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4:]
    status = os.waitstatus_to_exitcode(_served(program, calls, folders))
    if status < 0:
        if -status != signal.SIGKILL:  # which nobody can ignore, as Python does others
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _served(program: int, calls: dict[str, str], folders: list[str]) -> int:
    """How the program ended, as `os.waitpid` tells it."""
    with socket.socket(fileno=int(sys.argv[1])) as line:
        _, descriptors, _, _ = socket.recv_fds(line, 1, 1)
    ended = os.pidfd_open(program)
    waiting = select.poll()
    waiting.register(ended, select.POLLIN)
    for listener in descriptors:  # none, where the program could not be confined
        waiting.register(listener, select.POLLIN)
    while True:
        ready = dict(waiting.poll(_LOOK_MILLISECONDS))
        if ended in ready:
            return os.waitpid(program, 0)[1]
        for listener in descriptors:
            if ready.get(listener, 0) & select.POLLIN:
                _serve(listener, calls, folders)
            elif listener in ready:
                waiting.unregister(listener)  # nobody is left who could call
        _bury(program)


def _bury(program: int) -> None:
    """Fetch the orphans that have ended."""
    while True:
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if dead is None or dead.si_pid == program:
            return
        os.waitpid(dead.si_pid, 0)


def _serve(listener: int, calls: dict[str, str], folders: list[str]) -> None:
    """Answer one call."""
    words = bytearray(struct.calcsize(_NOTIFICATION))
    try:
        fcntl.ioctl(listener, _RECEIVE, words)
    except OSError:
        return  # the caller has just ended
    number, process, _, call, _, _, *arguments = struct.unpack(_NOTIFICATION, words)
    try:
        opened, mode = _asked(process, calls[str(call)], arguments)
        try:
            # Else it can be another's number by now, whose files were opened.
            fcntl.ioctl(listener, _IS_VALID, struct.pack("=Q", number))
            _change(opened, mode, folders)
        finally:
            os.close(opened)
        failure = 0
    except OSError as error:
        failure = error.errno or errno.EIO
    except (OverflowError, ValueError):
        failure = errno.EFAULT
    try:
        fcntl.ioctl(listener, _SEND, struct.pack(_ANSWER, number, 0, -failure, 0))
    except OSError:
        return


def _asked(process: int, call: str, arguments: list[int]) -> tuple[int, int]:
    """The file that a call names, opened without rights to anything, and the rights it shall have.

    Raises:
        OSError: there is none.
        ValueError, OverflowError: its path cannot be read.
    """
    if call == "fchmod":
        return _open(f"/proc/{process}/fd/{_signed(arguments[0])}"), arguments[1]
    if call == "chmod":
        arguments = [_CWD, *arguments]
    folder, address, mode = _signed(arguments[0]), arguments[1], arguments[2]
    flags = arguments[3] if call == "fchmodat2" else 0
    path = _text_at(process, address)
    base = f"/proc/{process}/" + ("cwd" if folder == _CWD else f"fd/{folder}")
    if not path:
        if not flags & _EMPTY_PATH:
            raise OSError(errno.ENOENT, "an empty path")
        return _open(base), mode
    for own in (b"/proc/self/", b"/proc/thread-self/"):
        if path.startswith(own):
            path = b"/proc/%d/%b" % (process, path.removeprefix(own))
    if path.startswith(b"/"):
        return _open(path, follow=not flags & _NO_FOLLOW), mode
    above = _open(base)
    try:
        return _open(path, follow=not flags & _NO_FOLLOW, above=above), mode
    finally:
        os.close(above)


def _open(path: str | bytes, *, follow: bool = True, above: int | None = None) -> int:
    flags = os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    return os.open(path, flags, dir_fd=above)


def _text_at(process: int, address: int) -> bytes:
    memory = os.open(f"/proc/{process}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text, end, _ = os.pread(memory, _LONGEST_PATH, address).partition(b"\0")
    finally:
        os.close(memory)
    if not end:
        raise OSError(errno.ENAMETOOLONG, "a path without end")
    return text


def _change(opened: int, mode: int, folders: list[str]) -> None:
    """Change the rights of an open file, where it lies in one of the folders.

    Raises:
        OSError: it does not, or it may not be.
    """
    path = os.readlink(f"/proc/self/fd/{opened}")
    if not any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in folders):
        raise OSError(errno.EPERM, "outside")
    kind = os.stat(opened).st_mode
    if stat.S_ISLNK(kind):
        raise OSError(errno.EOPNOTSUPP, "a link has no rights")
    if mode & (stat.S_ISUID | stat.S_ISGID) and not stat.S_ISDIR(kind):
        raise OSError(errno.EPERM, "others would run it with the user's rights")
    os.chmod(f"/proc/self/fd/{opened}", mode & 0o1777)


def _signed(number: int) -> int:
    """An argument as the kernel reads a descriptor: its lower half, with a sign."""
    return (number & 0xFFFFFFFF) - ((number & 0x80000000) << 1)


if __name__ == "__main__":
    main()
