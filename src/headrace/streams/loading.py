"""The app of a Python file: `pipeline.py`, or `pipeline.py:sales` if it has several.

The file is run as a module, not as a program: what stands under `if __name__ == "__main__":` is not done.
"""

import importlib.util
import os
import sys
import traceback
from types import ModuleType
from typing import Final

from headrace.streams.app import App
from headrace.streams.errors import PlanError, nearest

_SUFFIX: Final = ".py"
_MODULE: Final = "headrace_pipeline_"


class CannotLoadError(PlanError):
    """No app could be had from a file: the sentence says why."""


def is_file(text: str) -> bool:
    """Whether somebody who writes this means a file, and not the name of an app."""
    path, _ = _split(text)
    return path.endswith(_SUFFIX) or os.sep in path


def load_app(text: str) -> App:
    """The app that `FILE` or `FILE:NAME` names. Raises CannotLoadError."""
    path, name = _split(text)
    module = _load(path)
    apps = {key: value for key, value in vars(module).items() if isinstance(value, App)}
    if name is not None:
        if name in apps:
            return apps[name]
        close = nearest(name, apps)
        known = f"Did you mean {close}?" if close else f"Its apps are: {', '.join(apps) or 'none'}."
        raise CannotLoadError(f"{path} has no app {name!r}. {known}")
    different = {id(app): app for app in apps.values()}
    if not different:
        raise CannotLoadError(
            f"{path} has no app: it must make one at its top level, such as app = App(...), and not only inside of a "
            'function or under if __name__ == "__main__"'
        )
    if len(different) > 1:
        raise CannotLoadError(f"{path} has several apps: {', '.join(sorted(apps))}. Say which one: {path}:{min(apps)}")
    return next(iter(different.values()))


def own_modules(directory: str) -> list[ModuleType]:
    """The modules that come from below a directory: a program's own, which machines of a cluster do not have.

    A virtual environment in the directory is not its own. The directory itself may be in one: the demo's is, once
    Headrace is installed.
    """
    root = os.path.join(os.path.realpath(directory), "")
    return [
        module
        for module in list(sys.modules.values())
        if isinstance(file := getattr(module, "__file__", None), str)
        and (path := os.path.realpath(file)).startswith(root)
        and "site-packages" not in path.removeprefix(root)
    ]


def _split(text: str) -> tuple[str, str | None]:
    path, colon, name = text.rpartition(":")
    if colon and name.isidentifier() and not name.endswith(_SUFFIX):
        return path, name
    return text, None


def _load(path: str) -> ModuleType:
    if not os.path.isfile(path):
        raise CannotLoadError(f"there is no file {path}")
    name = _MODULE + os.path.basename(path).removesuffix(_SUFFIX)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CannotLoadError(f"{path} is not a Python file: its name must end in {_SUFFIX}")
    module = importlib.util.module_from_spec(spec)
    directory = os.path.dirname(os.path.abspath(path))
    if directory not in sys.path:
        sys.path.insert(0, directory)  # as Python does for a program: it may import what stands beside it
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise CannotLoadError(
            f"{path} cannot be loaded: {_where(error, path)}{type(error).__name__}: {error}"
        ) from error
    except SystemExit as error:
        del sys.modules[name]
        raise CannotLoadError(
            f"{path} ended the program while it was loaded (exit code {error.code}): put what is to be done when it is "
            'run as a program under if __name__ == "__main__":'
        ) from None
    return module


def _where(error: BaseException, path: str) -> str:
    """The last line of the file that was at work."""
    if isinstance(error, SyntaxError):
        return ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f"line {lines[-1]}: " if lines else ""
