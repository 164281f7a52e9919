"""Modules that come with a problem, for its tests: as they came, whatever the program made of their files since."""

import sys
import types
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from typing import Any


class Modules:
    """Finds them after all other modules. `texts`: by the names of their files."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def install(self) -> None:
        sys.meta_path.append(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        for ending in (".py", "/__init__.py"):
            file = name.replace(".", "/") + ending
            if file in self._texts:
                return ModuleSpec(name, self, origin=file, is_package=ending != ".py")  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        file = module.__spec__.origin if module.__spec__ else ""
        exec(compile(self._texts[file or ""], file or "", "exec", dont_inherit=True), vars(module))
