"""definitions/*.wire -> src/headrace/protocol/messages/*.py

`gen.py` writes what differs and removes modules that have no definition any more; `gen.py --check` changes nothing and
fails if there would be anything to do. The output depends on the definitions alone.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

from wiregen.catalog import render_catalog
from wiregen.model import DefinitionError
from wiregen.module import render_module
from wiregen.parser import parse

ROOT: Final = Path(__file__).resolve().parent.parent


def render(definitions: Path) -> dict[str, str]:
    """The whole package: file name to text."""
    parsed = [parse(path) for path in sorted(definitions.glob("*.wire"))]
    files = {f"{definition.module}.py": render_module(definition) for definition in parsed if definition.messages}
    files["__init__.py"] = render_catalog(parsed)
    return files


def differences(package: Path, files: dict[str, str]) -> list[str]:
    """Names of files that are missing, differ, or should not be there."""
    present = {path.name: path.read_text() for path in package.glob("*.py")}
    return sorted(name for name in present.keys() | files.keys() if present.get(name) != files.get(name))


def write(package: Path, files: dict[str, str], names: list[str]) -> None:
    package.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name in files:
            (package / name).write_text(files[name])
        else:
            (package / name).unlink()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the modules are not up to date")
    parser.add_argument("--definitions", type=Path, default=ROOT / "definitions")
    parser.add_argument("--package", type=Path, default=ROOT / "src/headrace/protocol/messages")
    options = parser.parse_args(arguments)
    try:
        files = render(options.definitions)
    except DefinitionError as error:
        print(f"gen.py: {error}", file=sys.stderr)
        return 1
    names = differences(options.package, files)
    if not options.check:
        write(options.package, files, names)
        print(f"{len(files)} modules, {len(names)} changed")
        return 0
    if names:
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        print(f"gen.py: not up to date with definitions/: {shown}\n  Run `make gen` and commit.", file=sys.stderr)
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
