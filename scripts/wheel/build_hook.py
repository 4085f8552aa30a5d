"""What the build puts into a wheel: the package under the product's name, and its other name.

The source is the package `service`, a name that a program may have given to a package of its own.
So the wheel holds it as `rondo`, with all its imports and module names rewritten: it works wherever
another `service` is found first. `service` itself is then only another name of the same modules.
An editable install is the other way round: `service` is the checkout, and `rondo` the other name.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "service"
PRODUCT = "rondo"
_MODULE = re.compile(
    rf"(?<![\w.]){SOURCE}(?=\.\w)"  # service.memory.memory, "service.cli.rondo_command:main"
    rf"|(?<=\bfrom ){SOURCE}(?= import\b)"
    rf"|(?<=\bimport ){SOURCE}\b"
    rf"|(?<=[\"']){SOURCE}(?=[\"'])"  # the name of the logger
)


class WheelHook(BuildHookInterface[Any]):
    """Makes what goes into the wheel beside its metadata."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the packages in a folder of their own, and name them to the build."""
        source = Path(self.root) / SOURCE
        alias = Path(__file__).with_name("alias.py")
        self._made = Path(tempfile.mkdtemp(prefix="rondo-wheel-"))
        if version == "editable":
            _write_alias(alias.read_text("utf-8"), self._made / PRODUCT, source)
            build_data["force_include_editable"][str(self._made / PRODUCT)] = PRODUCT
            return
        _copy_renamed(source, self._made / PRODUCT)
        _write_alias(renamed(alias.read_text("utf-8")), self._made / SOURCE, source)
        for name in (PRODUCT, SOURCE):
            build_data["force_include"][str(self._made / name)] = name
        scripts = self.metadata.core.scripts
        scripts.update({name: renamed(target) for name, target in scripts.items()})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made."""
        shutil.rmtree(self._made)


def renamed(text: str) -> str:
    """Source code, with the package's modules under the product's name.

    >>> renamed("from service import tool\\nimport service.cli as cli  # a service.")
    'from rondo import tool\\nimport rondo.cli as cli  # a service.'
    >>> renamed("('-m', 'service.cli'), 'service', my.service.cli")
    "('-m', 'rondo.cli'), 'rondo', my.service.cli"
    """
    return _MODULE.sub(PRODUCT, text)


def _copy_renamed(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    for file in target.rglob("*.py"):
        file.write_text(renamed(file.read_text("utf-8")), "utf-8")


def _write_alias(text: str, target: Path, source: Path) -> None:
    target.mkdir()
    (target / "__init__.py").write_text(text, "utf-8")
    shutil.copy(source / "py.typed", target)
