"""What there is to be had on a machine by a script that gets out of its sandbox."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from service.tools.builtins.run_script import run_script_tool
from service.tools.sandbox.confinement import Confinement, Limits
from service.tools.sandbox.levels import Sandbox
from service.tools.scripts.domain_proxy import DomainProxy
from tests.support.tools.attacks import attacking, escapes
from tests.support.tools.tool_calls import result_of

SECRET = "sk-the-token-of-the-daemon"
LIMITS = Limits(
    memory_bytes=600_000_000,
    memory_bytes_in_all=100_000_000,
    file_bytes=20_000_000,
    processes=60,
)
PLENTY = Limits(processes=10_000)


@dataclass(frozen=True)
class Prey:
    """A person's files and processes, and a script that is after them."""

    folder: Path
    granted: Path
    confinement: Confinement
    names: Mapping[str, object]
    datagrams: tuple[socket.socket, ...]

    async def attacked(
        self,
        attacks: Iterable[str],
        sandbox: Sandbox,
        *,
        linger: float = 0,
        proxy: DomainProxy | None = None,
        **changed: object,
    ) -> tuple[set[str], str]:
        """Which attacks succeeded, and all that was written."""
        code = attacking(attacks, self.names, linger=linger)
        output = await self.run(code, sandbox, proxy=proxy, **changed)
        return escapes(output) | self._changes(), output

    async def run(
        self, code: str, sandbox: Sandbox, *, proxy: DomainProxy | None = None, **changed: object
    ) -> str:
        """What the model is told of a script in Python, with the names of what there is."""
        scripts = self.folder / "scripts"
        scripts.mkdir(exist_ok=True)
        (scripts / "attack.py").write_text(code)
        confinement = replace(self.confinement, **changed)  # type: ignore[arg-type]
        runs = self.folder / "runs"
        tool = run_script_tool(
            scripts, runs=runs, sandbox=sandbox, confinement=confinement, proxy=proxy
        )
        output = (await result_of(tool, name="attack.py")).content
        assert not list(runs.iterdir()), "what is left of a run is removed"
        return output

    def _changes(self) -> set[str]:
        """The names of the attacks whose traces there are."""
        victims = [each.stat() for each in self._victims]
        traces = {
            "writing outside": (self.folder / "outside").exists(),
            "emptying files": any(not each.st_size for each in victims),
            "rights of files": any(each.st_mode & 0o777 != 0o600 for each in victims),
            "times of files": any(each.st_mtime < 10 for each in victims),
            "attributes of files": any(map(_has_attributes, self._victims)),
            "removing files": not all(Path(each).exists() for each in self._removable),
            "network by datagrams": _received(self.datagrams[0]),
        }
        return {name for name, is_there in traces.items() if is_there}

    @property
    def _victims(self) -> list[Path]:
        return [Path(each) for each in self.names["VICTIMS"]]  # type: ignore[attr-defined]

    @property
    def _removable(self) -> list[Path]:
        return [Path(each) for each in self.names["REMOVABLE"]]  # type: ignore[attr-defined]


@contextlib.contextmanager
def laid_out(folder: Path) -> Iterator[Prey]:
    """Lay out prey in an empty folder: a home, which may be read, with the data folder in it."""
    home, beside = folder / "home", folder / "beside"
    data, granted, seen = home / "data", home / "granted", home / "seen"
    for each in (data, granted, seen, beside):
        each.mkdir(parents=True)
    secrets = [data / "token", data / "spare", beside / "secret"]
    shared = Path(f"/dev/shm/rondo-test-{os.getpid()}")
    for each in (*secrets, shared):
        each.write_text(SECRET)
    victims = [each / "victim" for each in (data, seen, beside)]
    removable = [each / "removable" for each in (data, seen, beside)]
    for each in (*victims, *removable):
        each.write_text("x")
        each.chmod(0o600)
    in_memory = ctypes.create_string_buffer(SECRET.encode())
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(secrets[0].open())
        victim = stack.enter_context(subprocess.Popen(("sleep", "1000")))
        stack.callback(victim.kill)
        stack.callback(shared.unlink)
        segment = stack.enter_context(_segment())
        listening, datagrams = _sockets(folder, granted, stack)
        names = {
            **{"SECRET": SECRET, "DAEMON": os.getpid(), "VICTIM": victim.pid},
            "CMDLINE": Path("/proc/self/cmdline").read_text(),
            **{"ADDRESS": ctypes.addressof(in_memory), "DESCRIPTOR": opened.fileno()},
            **{"DATA": str(data), "TOKEN": str(secrets[0]), "SPARE": str(secrets[1])},
            **{"BESIDE": str(secrets[2]), "SHARED": str(shared), "SEGMENT": segment},
            **{"GRANTED": str(granted), "OUTSIDE": str(folder / "outside")},
            **{"VICTIMS": [*map(str, victims)], "REMOVABLE": [*map(str, removable)]},
            **{"PORT": listening, "DATAGRAMS": datagrams[0].getsockname()[1]},
            **{"SOCKET": str(folder / "s"), "GRANTED_SOCKET": str(granted / "s")},
            **{"GRANTED_DATAGRAMS": str(granted / "d"), "ABSTRACT": f"rondo-test-{os.getpid()}"},
        }
        confinement = Confinement(
            readable=(home,),
            writable=(granted,),
            hidden=(data,),
            scratch_bytes=10_000_000,
            limits=LIMITS,
        )
        yield Prey(folder, granted, confinement, names, datagrams)


def _sockets(
    folder: Path, granted: Path, stack: contextlib.ExitStack
) -> tuple[int, tuple[socket.socket, ...]]:
    """Listen in all ways; the port of TCP, and the sockets for datagrams."""
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    for name in (str(folder / "s"), str(granted / "s"), f"\0rondo-test-{os.getpid()}"):
        each = stack.enter_context(socket.socket(socket.AF_UNIX))
        each.bind(name)
        each.listen()
    by_port = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
    by_port.bind(("127.0.0.1", 0))
    by_name = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    by_name.bind(str(granted / "d"))
    by_port.setblocking(False)
    return server.getsockname()[1], (by_port, by_name)


@contextlib.contextmanager
def _segment() -> Iterator[int]:
    """The number of a segment of shared memory that holds the secret."""
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    number = libc.shmget(0, 4096, 0o600)  # IPC_PRIVATE
    ctypes.memmove(libc.shmat(number, None, 0), SECRET.encode(), len(SECRET))
    try:
        yield number
    finally:
        libc.shmctl(number, 0, None)  # IPC_RMID


def _has_attributes(path: Path) -> bool:
    return bool(os.listxattr(path))


def _received(server: socket.socket) -> bool:
    try:
        return bool(server.recv(10))
    except BlockingIOError:
        return False
