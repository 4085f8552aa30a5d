"""Another name of the package `service`: each module here is the one there, not a copy of it.

The build of the wheel installs this file as a package, see `build_hook.py` beside it.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from service import *  # noqa: F403

_REAL = "service"


class _Finder(MetaPathFinder):
    """Finds what is below this name where it really is."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's place; None where it is not below this name, or where there is none."""
        if not fullname.startswith(f"{__name__}."):
            return None
        real = find_spec(_REAL + fullname[len(__name__) :])
        if real is None:
            return None
        loader = _Loader(real)
        return ModuleSpec(fullname, loader, is_package=real.submodule_search_locations is not None)


class _Loader(InspectLoader):
    """Gives the module that has been loaded under its real name."""

    def __init__(self, real: ModuleSpec) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module itself; it is loaded if need be."""
        return import_module(self._real.name)

    def exec_module(self, module: ModuleType) -> None:
        """It has run already. What importing has written over its own place is set right."""
        module.__spec__ = self._real

    def get_source(self, fullname: str) -> str | None:
        """For tools that ask for it."""
        return cast(InspectLoader, self._real.loader).get_source(self._real.name)

    def get_code(self, fullname: str) -> CodeType | None:
        """For ``python -m``."""
        return cast(InspectLoader, self._real.loader).get_code(self._real.name)


sys.meta_path.insert(0, _Finder())  # first: else the files would be loaded a second time
sys.modules[__name__] = import_module(_REAL)
