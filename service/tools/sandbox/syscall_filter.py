"""The system calls that a confined program is refused: a filter for the kernel's seccomp.

The filter is a program of classic BPF, see ``Documentation/userspace-api/seccomp_filter.rst`` of
Linux. It sees the numbers that a call is given, and nothing of what they point to; so paths are
Landlock's affair. What it lets through costs next to nothing, as the kernel keeps in mind which
calls are always allowed.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from service.tools.sandbox.syscall_numbers import NEWEST, Machine, syscall_numbers

REFUSED = (
    # other processes: what they hold, their memory, their descriptors
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease"),
    *("pidfd_getfd", "kcmp", "move_pages", "migrate_pages"),
    # another view of the file system, and ways to files around paths
    *("mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "open_tree"),
    *("open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick"),
    *("mount_setattr", "name_to_handle_at", "open_by_handle_at", "fanotify_init"),
    # large parts of the kernel that scripts have no use for; io_uring does calls unseen
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter"),
    *("io_uring_register", "keyctl", "add_key", "request_key"),
    # the whole machine
    *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot"),
    *("swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "settimeofday", "clock_settime"),
    *("clock_adjtime", "sethostname", "setdomainname", "syslog", "vhangup", "iopl", "ioperm"),
    *("lookup_dcookie", "nfsservctl", "modify_ldt", "uselib", "_sysctl"),
)
"""Refused at each level, with EPERM."""

REFUSED_WITHOUT_NAMESPACES = (
    # what other processes of the same user share by number
    *("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"),
    "inotify_add_watch",  # names of files in folders that may not be listed
)
"""Refused, with EPERM, where the program sees the machine's own processes and files."""

UNSUPPORTED_WITHOUT_NAMESPACES = (
    *("setxattr", "lsetxattr", "fsetxattr", "setxattrat", "file_setattr"),
    *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
)
"""Refused there, too, as where a file system has no such attributes: with EOPNOTSUPP."""

RIGHTS = ("chmod", "fchmod", "fchmodat", "fchmodat2")
"""Landlock does not keep these to some folders: there, somebody who does answers them."""
PRETENDED_WITHOUT_NAMESPACES = (
    *("utime", "utimes", "futimesat", "utimensat", "chown", "lchown", "fchown", "fchownat"),
)
"""Nor these, so they do nothing there. They say that they have: copying and unpacking files ends
with them, and would fail."""

_OWN_ONLY = {  # by the argument that names a process; 0 is the one that calls
    **{"prlimit64": 0, "setpriority": 1, "ioprio_set": 1, "sched_setaffinity": 0},
    **{"sched_setscheduler": 0, "sched_setparam": 0, "sched_setattr": 0},
}
_NEW_NAMESPACES = 0x7E020080  # CLONE_NEW* of <linux/sched.h>
_IOCTLS = (
    *(0x5412, 0x541C),  # TIOCSTI, TIOCLINUX: typing at a terminal
    *(0x40086602, 0x401C5820),  # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR
)
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_* of <linux/audit.h>
_X32 = 0x40000000

_LOAD, _EQUAL, _GREATER, _AT_LEAST, _ANY_BIT, _MASK, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 6
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # places in struct seccomp_data
_SUCCESS = _ERRNO  # with the number 0
_HAND_OVER = 0x7FC00000  # SECCOMP_RET_USER_NOTIF

_Step = tuple[int, int, int, int]
"""Code, how many steps are left out where it holds and where it does not, and its constant."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Which system calls a program may make."""

    network: bool
    """Whether it may make sockets of the network."""
    unix_sockets: bool
    """Whether it may make sockets that others can be met at by a name in the file system."""
    namespaces: bool
    """Whether it has processes, users and files of its own, so that it meets nobody else's."""
    handed_over: bool = False
    """Whether somebody answers `RIGHTS` where it has not."""


def syscall_filter(calls: Calls, machine: Machine) -> bytes:
    """The filter, as an array of ``struct sock_filter``."""
    numbers = syscall_numbers(machine)
    steps: list[_Step] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, _ARCHITECTURE[machine]),
        _end(_KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        steps += [(_AT_LEAST, 0, 1, _X32), _end(_KILL)]
    steps += [(_GREATER, 0, 1, NEWEST), _end(_ERRNO | errno.ENOSYS)]
    refused = (*REFUSED, *(() if calls.namespaces else REFUSED_WITHOUT_NAMESPACES))
    for name in refused:
        steps += _always(numbers.get(name), _ERRNO | errno.EPERM)
    if not calls.namespaces:
        for name in UNSUPPORTED_WITHOUT_NAMESPACES:
            steps += _always(numbers.get(name), _ERRNO | errno.EOPNOTSUPP)
        for name in PRETENDED_WITHOUT_NAMESPACES:
            steps += _always(numbers.get(name), _SUCCESS)
        for name in RIGHTS:
            steps += _always(numbers.get(name), _HAND_OVER if calls.handed_over else _SUCCESS)
        for name, place in _OWN_ONLY.items():
            steps += _by_argument(numbers[name], place, equal=(0,), then=_ALLOW)
    # Its flags are in memory, which is not seen here; who is told that there is none takes `clone`.
    steps += _always(numbers["clone3"], _ERRNO | errno.ENOSYS)
    steps += _by_argument(numbers["clone"], 0, bits=_NEW_NAMESPACES, then=_ERRNO | errno.EPERM)
    steps += _by_argument(numbers["ioctl"], 1, equal=_IOCTLS, then=_ERRNO | errno.EPERM)
    steps += _sockets(calls, numbers["socket"], numbers["socketpair"])
    steps.append(_end(_ALLOW))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _sockets(calls: Calls, make: int, make_pair: int) -> list[_Step]:
    families: list[int] = []
    if calls.network:
        # The last one tells which addresses the machine has: looking up a name asks it.
        families += [socket.AF_INET, socket.AF_INET6, 16]  # 16 is AF_NETLINK, on Linux only
    if calls.unix_sockets:
        families.append(socket.AF_UNIX)
    refusal = _ERRNO | errno.EACCES
    if not families:
        steps = _always(make, refusal)
    else:
        steps = _by_argument(make, 0, equal=families, then=_ALLOW, otherwise=refusal)
    if not calls.unix_sockets:
        # Of a pair, only datagrams can be sent to somebody else.
        kinds = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
        steps += _by_argument(make_pair, 1, mask=0xF, equal=kinds, then=_ALLOW, otherwise=refusal)
    return steps


def _end(answer: int) -> _Step:
    return (_RETURN, 0, 0, answer)


def _always(number: int | None, answer: int) -> list[_Step]:
    return [] if number is None else [(_EQUAL, 0, 1, number), _end(answer)]


def _by_argument(
    number: int,
    place: int,
    *,
    mask: int | None = None,
    equal: Sequence[int] = (),
    bits: int | None = None,
    then: int,
    otherwise: int | None = None,
) -> list[_Step]:
    """One answer where an argument is among some, or has one of some bits, and another where not.

    Only the lower half is looked at: the kernel looks at no more of these arguments. An answer that
    is not given is the opposite one: allowed, or refused.
    """
    if otherwise is None:
        otherwise = _ERRNO | errno.EPERM if then == _ALLOW else _ALLOW
    tests = [(_EQUAL, each) for each in equal]
    tests += [(_ANY_BIT, bits)] if bits is not None else []
    body: list[_Step] = [(_LOAD, 0, 0, _ARGUMENTS + 8 * place)]
    body += [(_MASK, 0, 0, mask)] if mask is not None else []
    body += [(code, len(tests) - at, 0, value) for at, (code, value) in enumerate(tests)]
    body += [_end(otherwise), _end(then)]
    return [(_EQUAL, 0, len(body), number), *body]
