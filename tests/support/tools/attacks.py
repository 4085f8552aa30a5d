"""What a script tries, to get at what it was not granted, or to use up more than it may.

Names in capitals are of what there is to be had, see `prey.py`. An attack that has got it calls
``escaped``; one that changes something outside does not know whether it has, and leaves that to be
looked at.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping

ATTACKS: Mapping[str, str] = {
    "environment": """
        for process in ("self", SUPERVISOR, DAEMON):
            try: words = open(f"/proc/{process}/environ").read()
            except OSError: continue
            if SECRET in words: escaped()
    """,
    "processes": 'if open(f"/proc/{DAEMON}/cmdline").read() == CMDLINE: escaped()',
    "signals": "os.kill(VICTIM, 0); escaped()",
    "signals by a descriptor": """
        signal.pidfd_send_signal(os.pidfd_open(VICTIM), 0); escaped()
    """,
    "ptrace": """
        if libc.ptrace(0x4206, VICTIM, None, None) == 0: escaped()  # PTRACE_SEIZE
    """,
    "memory of the daemon": """
        with open(f"/proc/{DAEMON}/mem", "rb") as file:
            file.seek(ADDRESS)
            if file.read(len(SECRET)).decode() == SECRET: escaped()
    """,
    "memory of the daemon by a system call": """
        class Part(ctypes.Structure):
            _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
        copy = ctypes.create_string_buffer(len(SECRET))
        here, there = Part(ctypes.addressof(copy), len(copy)), Part(ADDRESS, len(copy))
        libc.process_vm_readv(DAEMON, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        if copy.raw.decode() == SECRET: escaped()
    """,
    "limits of others": "resource.prlimit(VICTIM, resource.RLIMIT_CORE, (0, 0)); escaped()",
    "priority of others": "os.setpriority(os.PRIO_PROCESS, VICTIM, 19); escaped()",
    "processors of others": """
        os.sched_setaffinity(VICTIM, os.sched_getaffinity(0)); escaped()
    """,
    "descriptors of the daemon": """
        for name in os.listdir(f"/proc/{DAEMON}/fd"):
            if os.readlink(f"/proc/{DAEMON}/fd/{name}") == TOKEN:
                if open(f"/proc/{DAEMON}/fd/{name}").read() == SECRET: escaped()
    """,
    "a descriptor of the daemon by a system call": """
        of_daemon = os.pidfd_open(DAEMON)
        if libc.syscall(438, of_daemon, DESCRIPTOR, 0) >= 0: escaped()  # pidfd_getfd
    """,
    "the token": "if open(TOKEN).read() == SECRET: escaped()",
    "the data folder": "if 'token' in os.listdir(DATA): escaped()",
    "by a link": """
        os.symlink(TOKEN, "link")
        if open("link").read() == SECRET: escaped()
    """,
    "by a link in a granted folder": """
        os.symlink(TOKEN, os.path.join(GRANTED, "link"))
        if open(os.path.join(GRANTED, "link")).read() == SECRET: escaped()
    """,
    "by a hard link": """
        os.link(TOKEN, os.path.join(GRANTED, "hard"))
        if open(os.path.join(GRANTED, "hard")).read() == SECRET: escaped()
    """,
    "by moving": """
        os.rename(SPARE, os.path.join(GRANTED, "moved"))
        if open(os.path.join(GRANTED, "moved")).read() == SECRET: escaped()
    """,
    "by a file handle": """
        handle = ctypes.create_string_buffer(136)
        struct.pack_into("I", handle, 0, 128)
        libc.name_to_handle_at(-100, TOKEN.encode(), handle, ctypes.byref(ctypes.c_int()), 0)
        here = os.open(".", os.O_RDONLY)
        found = libc.open_by_handle_at(here, handle, os.O_RDONLY)
        if os.read(found, 100).decode() == SECRET: escaped()
    """,
    "by watching": """
        watching = libc.inotify_init1(0)
        if libc.inotify_add_watch(watching, TOKEN.encode(), 0xFFF) >= 0: escaped()
    """,
    "whether a path is there": "os.stat(TOKEN); escaped()",
    "a file beside": "if open(BESIDE).read() == SECRET: escaped()",
    "shared memory by name": "if open(SHARED).read() == SECRET: escaped()",
    "shared memory by number": """
        libc.shmat.restype = ctypes.c_void_p
        place = libc.shmat(SEGMENT, None, 0o10000)  # SHM_RDONLY
        if place != 2**64 - 1 and ctypes.string_at(place, len(SECRET)).decode() == SECRET: escaped()
    """,
    "writing outside": 'open(OUTSIDE, "w").write("x")',
    "emptying files": "for path in VICTIMS: attempt(os.truncate, path, 0)",
    "rights of files": """
        for path in VICTIMS: attempt(os.chmod, path, 0o666)
        for path in VICTIMS: attempt(lambda: os.fchmod(os.open(path, os.O_RDONLY), 0o666))
        for path in VICTIMS: attempt(lambda: os.fchmod(os.open(path, os.O_PATH), 0o666))
        for number, path in enumerate(VICTIMS):
            for folder in (os.getcwd(), GRANTED):
                link = f"{folder}/rights{number}"
                os.symlink(path, link)
                attempt(os.chmod, link, 0o666)
                attempt(os.chmod, f"{folder}/x/../rights{number}", 0o666)
            attempt(os.chmod, os.path.relpath(path), 0o666)
            above = os.open(os.path.dirname(path), os.O_PATH)
            attempt(os.chmod, "victim", 0o666, dir_fd=above)
            os.fchdir(above)
            attempt(os.chmod, "victim", 0o666)
            attempt(os.chmod, f"/proc/self/fd/{above}/victim", 0o666)
    """,
    "times of files": "for path in VICTIMS: attempt(os.utime, path, (1, 1))",
    "attributes of files": 'for path in VICTIMS: attempt(os.setxattr, path, "user.x", b"1")',
    "removing files": "for path in REMOVABLE: attempt(os.remove, path)",
    "writing in its own code": """
        os.chmod(os.path.dirname(__file__), 0o700)
        open(__file__ + ".more", "w").write("x"); escaped()
    """,
    "a device of its own making": """
        for folder in (os.getcwd(), GRANTED):
            path = os.path.join(folder, "device")
            attempt(os.mknod, path, 0o600 | stat.S_IFCHR, os.makedev(1, 11))
            os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # what the kernel logs
            escaped()
    """,
    "settings of the kernel": """
        os.close(os.open("/proc/sys/vm/swappiness", os.O_WRONLY)); escaped()
    """,
    "anything of the kernel's": """
        for folder, folders, names in os.walk("/proc"):
            folders[:] = [each for each in folders if not each.isdigit() and each != "self"
                          and each != "thread-self"]
            for name in names:
                try: os.close(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_NONBLOCK))
                except OSError: continue
                escaped()
    """,
    "namespaces of its own": """
        if libc.unshare(0x10000000 | 0x00020000) == 0: escaped()  # of users, and of mounts
    """,
    "network": 'socket.create_connection(("127.0.0.1", PORT), 5); escaped()',
    "network by datagrams": """
        socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", DATAGRAMS))
    """,
    "a socket beside": "socket.socket(socket.AF_UNIX).connect(SOCKET); escaped()",
    "a socket in a granted folder": """
        socket.socket(socket.AF_UNIX).connect(GRANTED_SOCKET); escaped()
    """,
    "a socket in a granted folder, by one of a pair": """
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        one.sendto(b"x", GRANTED_DATAGRAMS); escaped()
    """,
    "an abstract socket": """
        socket.socket(socket.AF_UNIX).connect("\\0" + ABSTRACT); escaped()
    """,
}
OF_ROOT = frozenset(
    (
        *("by a file handle", "a device of its own making"),
        *("settings of the kernel", "anything of the kernel's"),
    )
)
"""What root alone could do anyway."""

EXHAUSTIONS: Mapping[str, str] = {
    "much in one file": """
        with open(os.path.join(GRANTED, "large"), "wb") as file:
            for _ in range(40): file.write(b"x" * 1_000_000)
        escaped()
    """,
    "much in all": """
        for number in range(40): open(str(number), "wb").write(b"x" * 1_000_000)
        linger(); escaped()
    """,
    "much in files without a name": """
        files = []
        for number in range(40):
            files.append(open("nameless", "wb", buffering=0))
            files[-1].write(b"x" * 1_000_000)
            os.remove("nameless")
        linger(); escaped()
    """,
    "much in mapped files without a name": """
        for number in range(40):  # without the descriptor that Python keeps to a map
            with open("nameless", "w+b", buffering=0) as file:
                file.write(b"x" * 1_000_000)
                libc.mmap(None, ctypes.c_size_t(4096), 1, 1, file.fileno(), ctypes.c_long(0))
            os.remove("nameless")
        linger(); escaped()
    """,
    "much in deep folders": """
        for _ in range(1100):
            os.mkdir("folder"); os.chdir("folder")
        for number in range(40): open(str(number), "wb").write(b"x" * 1_000_000)
        linger(); escaped()
    """,
    "much in a closed folder": """
        os.mkdir("closed", 0o300)
        for number in range(40): open(f"closed/{number}", "wb").write(b"x" * 1_000_000)
        linger(); escaped()
    """,
    "much in files of the memory": """
        places = [each for each in ("/dev/shm", "/dev", "/run", "/tmp") if os.access(each, os.W_OK)]
        for folder in places:
            try:
                for number in range(40):
                    with open(f"{folder}/rondo-test-{number}", "wb", buffering=0) as file:
                        assert file.write(b"x" * 1_000_000) == 1_000_000
            except (OSError, AssertionError): continue
            else: escaped()
            finally:
                for number in range(40): attempt(os.remove, f"{folder}/rondo-test-{number}")
    """,
    "memory": "x = bytearray(900_000_000); escaped()",
    "memory that is shared": """
        shared = mmap.mmap(-1, 150_000_000)
        for _ in range(15): shared.write(b"x" * 10_000_000)
        linger(); escaped()
    """,
    "many processes": """
        for _ in range(120):
            if os.fork() == 0: signal.pause()
        linger(); escaped()
    """,
    "many processes that leave the group": """
        for _ in range(120):
            if os.fork() == 0:
                os.setsid()
                if os.fork() != 0: os._exit(0)
                signal.pause()
        linger(); escaped()
    """,
}
"""What would use up the machine. ``linger`` waits for long where it is to be stopped."""

_BEGIN = """
import ctypes, mmap, os, resource, signal, socket, stat, struct, sys, time
{names}
SUPERVISOR = os.getppid()
libc = ctypes.CDLL(None)
def escaped(): print("ESCAPED:" + ATTACK, flush=True)
def linger(): time.sleep(LINGER)
def attempt(action, *arguments):
    try: action(*arguments)
    except OSError: pass
def attack():
    signal.alarm(int(LINGER) + 20)  # longer than anything that is to be stopped
    sys.stderr = open(os.devnull, "w")
    try: exec(CODE, globals())
    except Exception as error: print(f"{{ATTACK}}: {{error!r:.60}}", flush=True)
    os._exit(0)
"""
_EACH = """
for ATTACK, CODE in {attacks!r}.items():
    if os.fork() == 0: attack()
    os.wait()
"""


def attacking(attacks: Iterable[str], names: Mapping[str, object], *, linger: float = 0) -> str:
    """A script in Python that tries some attacks, one after another, each in a process of its own.

    Args:
        attacks: their names.
        names: what there is to be had.
        linger: how long an attack waits to be stopped, in seconds.
    """
    everything = {**ATTACKS, **EXHAUSTIONS}
    codes = {name: textwrap.dedent(everything[name]) for name in attacks}
    given = "\n".join(f"{name} = {value!r}" for name, value in names.items())
    return _BEGIN.format(names=f"{given}\nLINGER = {linger}") + _EACH.format(attacks=codes)


def escapes(output: str) -> set[str]:
    """The names of the attacks that have got what they wanted, by what the script wrote."""
    return set(re.findall(r"^ESCAPED:(.+)$", output, re.MULTILINE))
