"""Commands that tests are written with, by the packages of the judge's runtime: a workspace has no network to fetch
them by, and a runtime no commands."""

from collections.abc import Mapping

from ratchet_environments.folders.tree import File

_PYTEST = """#!/bin/bash
exec python -P -m pytest "$@"
"""
_IN_IMAGE = """#!/bin/bash
# Runs a module of the image's Python, of whatever version: none from where it runs.
python=$(command -v python || command -v python3)
exec "$python" -c 'import sys
sys.path[:] = [one for one in sys.path if one]
sys.argv[:1] = []
import runpy
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)' "$@"
"""
_UVX = """#!/bin/bash
# Runs a module of the runtime; what it would fetch must be there.
while [[ $1 == -* ]]; do
  case $1 in
    --with | -w | --from | --python | -p | --index | --index-url | --with-requirements) shift 2 ;;
    *) shift ;;
  esac
done
exec RUN "$@"
"""
_UV = """#!/bin/bash
if [[ $1 != run ]]; then
  echo "uv $1: a workspace has no network: name a runtime that has the packages in task.toml" >&2
  exit 2
fi
exec "$(dirname "$0")/uvx" "${@:2}"
"""
SAFE_PATH = """# Python before 3.11 knows no PYTHONSAFEPATH: it looks for modules where it runs, at the agent's files.
import os, sys

class Finder:
    before, here = list(sys.path), os.getcwd()

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "__main__" and sys.path != cls.before:  # begun: what comes first is there by now
            sys.meta_path[:] = [one for one in sys.meta_path if one is not cls]
            sys.path[:] = [one for one in sys.path if one in cls.before or one not in ("", cls.here)]
        return None

if (3,) <= sys.version_info < (3, 11):
    sys.meta_path.insert(0, Finder)
"""
"""As sitecustomize.py, which Python loads before it adds the folder where it runs."""


def commands(folder: str, in_image: bool) -> Mapping[str, File]:
    """Below a folder, which must be on the PATH. An image has its own pytest."""
    texts = {"pytest": _PYTEST, "uvx": _UVX.replace("RUN", "python -P -m"), "uv": _UV}
    if in_image:
        module = '"$(dirname "$0")/run-module"'
        texts = {"run-module": _IN_IMAGE, "uvx": _UVX.replace("RUN", module), "uv": _UV}
    return {f"{folder}/{name}": File(text.encode(), 0o755) for name, text in texts.items()}
