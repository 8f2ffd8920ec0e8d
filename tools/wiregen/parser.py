"""The definition language to the model; definitions/README.md describes it.

Lines are first made into a tree by their indentation, then each tree is read top down. A field may name a `struct` that
stands further below: it is read when it is first asked for.
"""

import keyword
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from wiregen.model import (
    ALWAYS,
    FOREVER,
    NEVER,
    SCALARS,
    SIZED,
    Api,
    Definition,
    DefinitionError,
    Field,
    Message,
    RecordType,
    Struct,
    Versions,
    snake_case,
)

_RANGE: Final = r"\d+(?:\+|-\d+)?"
_FIELD: Final = re.compile(
    rf"(?P<name>[a-z][a-z0-9_]*): (?P<open>\[)?(?P<type>\w+)(?P<close>\])?(?P<null>\?(?:{_RANGE})?)?"
    rf"(?: (?P<versions>{_RANGE}))?(?: tag (?P<tag>\d+))?(?: = (?P<default>\S+))?"
    r"(?P<flags>(?: (?:key|ignorable|inflexible|rare))*)"
)
_VERSIONS: Final = re.compile(
    rf"versions (?P<valid>{_RANGE})(?:, flexible (?P<flexible>{_RANGE}))?(?:, unstable (?P<unstable>\d+))?"
)
# A field of such a name would hide the type that annotates the next one, or the field that every struct gets.
_TAKEN: Final = frozenset({"bool", "bytes", "float", "str", "unknown_tags"})
_LISTENERS: Final = frozenset({"broker", "controller"})


@dataclass
class _Line:
    """One line and what stands indented below it."""

    number: int
    text: str
    children: list["_Line"]


class _File:
    """One file being read: knows its name for messages, and its structs by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text()
        self.about = self._read_about(text)
        lines = self._read_tree(text)
        self._lines = iter(lines)
        self.shared: dict[str, _Line] = {}
        for line in lines:
            if line.text.startswith("struct "):
                name = line.text.removeprefix("struct ")
                if self.shared.setdefault(name, line) is not line:
                    self.fail(line, f"a second struct {name}")
        self.structs: dict[str, Struct] = {}
        self.named_at: dict[str, int] = {}
        self.is_flexible = False  # the message being read has flexible versions

    def fail(self, line: _Line, reason: str) -> NoReturn:
        raise DefinitionError(f"{self.path.name}:{line.number}: {reason}: {line.text!r}")

    @staticmethod
    def _read_about(text: str) -> str:
        head = re.match(r"(?:#.*\n)+", text)
        return " ".join(line.removeprefix("#").strip() for line in head[0].splitlines()) if head else ""

    def _read_tree(self, text: str) -> list[_Line]:
        root = _Line(0, "", [])
        open_lines = [root]
        for number, raw in enumerate(text.splitlines(), 1):
            content = raw.split("#")[0].rstrip()
            if not content:
                continue
            depth, odd = divmod(len(content) - len(content.lstrip(" ")), 2)
            line = _Line(number, content.strip(), [])
            if odd or depth >= len(open_lines) or "\t" in content:
                self.fail(line, "indent by two spaces below the line that this one belongs to")
            del open_lines[depth + 1 :]
            open_lines[depth].children.append(line)
            open_lines.append(line)
        return root.children

    def read_struct(self, name: str, lines: list[_Line]) -> Struct:
        fields = tuple(self.read_field(line) for line in lines)
        names = [field.name for field in fields]
        tags = sorted(field.tag for field in fields if field.tag is not None)
        for line, field in zip(lines, fields, strict=True):
            if names.count(field.name) > 1:
                self.fail(line, "a second field of this name in the struct")
            if tags != list(range(len(tags))):
                self.fail(line, f"tags are numbered from 0 without gaps, these are {tags}")
        return Struct(name, fields, keeps_unknown_tags=self.is_flexible)

    def read_field(self, line: _Line) -> Field:
        match = _FIELD.fullmatch(line.text)
        if not match or bool(match["open"]) != bool(match["close"]):
            self.fail(line, "not a field (name: type versions tag N = default flags)")
        name, type_name = match["name"], match["type"]
        if keyword.iskeyword(name) or name in _TAKEN:
            self.fail(line, f"{name} cannot be the name of a field")
        versions = read_versions(match["versions"]) if match["versions"] else ALWAYS
        struct = self._read_row(line, type_name)
        null, tag = match["null"], match["tag"]
        field = Field(
            name=name,
            type=type_name,
            is_array=bool(match["open"]),
            struct=struct,
            versions=versions,
            nullable=NEVER if null is None else versions if null == "?" else read_versions(null[1:]),
            tag=None if tag is None else int(tag),
            default=match["default"],
            is_key="key" in match["flags"],
            is_ignorable="ignorable" in match["flags"],
            is_inflexible="inflexible" in match["flags"],
            is_rare="rare" in match["flags"],
        )
        self._check_field(line, field)
        return field

    def _read_row(self, line: _Line, type_name: str) -> Struct | None:
        if type_name in SCALARS or type_name in SIZED:
            if line.children:
                self.fail(line.children[0], f"{type_name} has no fields")
            return None
        if not type_name[0].isupper():
            self.fail(line, f"{type_name} is not a type")
        if line.children:
            return self.name_struct(line, type_name, line.children)
        if type_name not in self.structs:
            if type_name not in self.shared:
                self.fail(line, f"no struct {type_name} in this file")
            if type_name in self.named_at:
                self.fail(line, f"{type_name} would contain itself")
            shared = self.shared[type_name]
            self.name_struct(shared, type_name, shared.children)
        struct = self.structs[type_name]
        if struct.keeps_unknown_tags != self.is_flexible:
            self.fail(line, f"{type_name} is shared by a message with flexible versions and one without")
        return struct

    def name_struct(self, line: _Line, name: str, lines: list[_Line]) -> Struct:
        if self.named_at.setdefault(name, line.number) != line.number:
            self.fail(line, f"{name} is already a struct of line {self.named_at[name]}; give one of them another name")
        self.structs[name] = struct = self.read_struct(name, lines)
        return struct

    def _check_field(self, line: _Line, field: Field) -> None:
        if field.nullable != NEVER and field.type in SCALARS and not field.is_array:
            self.fail(line, f"{field.type} cannot be null on the wire")
        if field.is_rare and not field.is_array and field.nullable == NEVER:
            self.fail(line, "only arrays and what may be null can be rare")
        match field.default:
            case None:
                return
            case "null":
                fits = field.nullable != NEVER
            case "true":
                fits = field.type == "bool" and not field.is_array
            case text:
                fits = "int" in field.type and not field.is_array and re.fullmatch(r"-?[1-9]\d*", text) is not None
        if not fits:
            self.fail(line, f"{field.default} cannot be the default here")

    # --- blocks

    def next_line(self) -> _Line | None:
        return next(self._lines, None)

    def expect(self, what: str) -> _Line:
        line = self.next_line()
        if line is None:
            raise DefinitionError(f"{self.path.name}: {what} expected at the end")
        return line

    def read_valid(self, prefix: str = "") -> tuple[_Line, Versions, Versions, int | None]:
        """The line that says which versions there are, which are flexible, and which is unstable."""
        what = f"{prefix}versions A-B, flexible C+ is"
        line = self.expect(what)
        match = _VERSIONS.fullmatch(line.text.removeprefix(prefix))
        if not match or not line.text.startswith(prefix):
            self.fail(line, f"{what} expected here")
        unstable = int(match["unstable"]) if match["unstable"] else None
        return line, read_versions(match["valid"]), read_versions(match["flexible"]), unstable

    def read_body(self, line: _Line, name: str, flexible: Versions) -> Struct:
        self.is_flexible = flexible != NEVER
        return self.name_struct(line, name, line.children)


def read_versions(text: str | None) -> Versions:
    if text is None:
        return NEVER
    if text.endswith("+"):
        return Versions(int(text[:-1]), FOREVER)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


def parse(path: Path) -> Definition:
    """Read one definition file. Raises DefinitionError with file and line."""
    file = _File(path)
    messages: list[Message] = []
    records: list[RecordType] = []
    removed: list[Api] = []
    api: Api | None = None
    while line := file.next_line():
        match line.text.split(" "):
            case ["struct", _]:
                continue
            case ["api", name, key] if api is None and key.isdigit():
                api = _read_api(file, name, int(key))
                messages += [_read_side(file, api, side) for side in ("request", "response")]
            case ["record", name, number] if number.isdigit():
                messages.append(_read_message(file, name))
                records.append(RecordType(name, int(number), is_pair=False))
            case ["pair", name, number] if number.isdigit():
                messages += [_read_message(file, f"{name}Key", "key "), _read_message(file, f"{name}Value", "value ")]
                records.append(RecordType(name, int(number), is_pair=True))
            case ["data" | "header", name]:
                messages.append(_read_message(file, name))
            case ["removed", name, key] if key.isdigit():
                removed.append(Api(name, int(key), NEVER, NEVER, None, ()))
            case _:
                file.fail(line, "a block starts with api, record, pair, data, header, struct or removed")
    for name, line in file.shared.items():
        if name not in file.structs:
            file.fail(line, "no field uses this struct")
    return Definition(path.stem, file.about, tuple(messages), api, tuple(records), tuple(removed))


def _read_api(file: _File, name: str, key: int) -> Api:
    line, valid, flexible, unstable = file.read_valid()
    listeners = file.expect("listeners broker, listeners controller or both are")
    word, *names = listeners.text.split(" ")
    if word != "listeners" or not names or not _LISTENERS.issuperset(names):
        file.fail(listeners, "listeners broker, listeners controller or both are expected here")
    if unstable not in (None, valid.last):
        file.fail(line, "only the latest version can be unstable")
    return Api(name, key, valid, flexible, unstable, tuple(names))


def _read_side(file: _File, api: Api, side: str) -> Message:
    line = file.expect(f"the {side} is")
    if line.text != side:
        file.fail(line, f"the {side} is expected here")
    body = file.read_body(line, f"{api.name}{side.title()}", api.flexible)
    return Message(body, api.versions, api.flexible, side)


def _read_message(file: _File, name: str, prefix: str = "") -> Message:
    line, valid, flexible, unstable = file.read_valid(prefix)
    if unstable is not None:
        file.fail(line, "only the latest version of an API can be unstable")
    return Message(file.read_body(line, name, flexible), valid, flexible, snake_case(name))
