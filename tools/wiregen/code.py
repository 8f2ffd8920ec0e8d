"""Lines of Python with their indentation, and what one generated module needs besides its functions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from wiregen.layout import CODES, Layout
from wiregen.model import Field, Struct, snake_case

WIDTH: Final = 120


class Code:
    """Lines of one function or block; `margin` is the indentation that they will get on top of their own."""

    def __init__(self, margin: int = 0) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self._margin = margin

    def __call__(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line if line else "" for line in lines]

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self(opening)
        self.depth += 1
        yield
        self.depth -= 1

    def call(self, opening: str, items: list[str], closing: str) -> None:
        """`opening item, item closing` on one line, or on several where one would be too long."""
        line = f"{opening}{', '.join(items)}{closing}"
        if self._fits(line):
            self(line)
            return
        self(opening)
        row = ""
        for item in items:
            if row and not self._fits(f"    {row} {item},"):
                self(f"    {row}")
                row = ""
            row = f"{row} {item}," if row else f"{item},"
        self(f"    {row}", closing)

    def _fits(self, line: str) -> bool:
        return self._margin + self.depth * 4 + len(line) <= WIDTH

    def refuse(self, condition: str, error: str) -> None:
        """`if condition: raise error(...)`."""
        with self.block(f"if {condition}:"):
            function, _, arguments = error.partition("(")
            self.call(f"raise {function}(", [arguments.removesuffix(")")], ")")

    def condition(self, keyword: str, terms: list[str], operator: str = "or") -> None:
        """`keyword a or b:`, in parentheses with one term per line where that is too long."""
        line = f"{keyword} {f' {operator} '.join(terms)}:"
        if self._fits(line):
            self(line)
        else:
            self(f"{keyword} (", f"    {terms[0]}", *(f"    {operator} {term}" for term in terms[1:]), "):")

    def targets(self, opening: str, names: list[str], closing: str) -> None:
        """`opening a, b closing` for the targets of an assignment or a loop, in parentheses where one line is short."""
        line = f"{opening}{', '.join(names) if len(names) > 1 else f'({names[0]},)'}{closing}"
        if self._fits(line):
            self(line)
        else:
            self.call(f"{opening}(", names, f"){closing}")


def default_of(field: Field) -> str:
    """The default as Python writes it."""
    if field.default == "null":
        return "None"
    if field.is_array:
        return "()"
    if field.struct:
        return default_struct(field.struct)
    match field.type:
        case "string":
            return '""'
        case "bytes":
            return 'b""'
        case "records":
            return 'b""' if field.nullable.first > field.nullable.last else "None"
        case "uuid":
            return "ZERO_UUID"
        case "bool":
            return "True" if field.default == "true" else "False"
        case "float64":
            return "0.0"
    return field.default or "0"


def default_struct(struct: Struct) -> str:
    """The constant that stands for a struct of nothing but defaults."""
    return f"DEFAULT_{snake_case(struct.name).upper()}"


class Module:
    """Collects what the functions of one module refer to, so that it can be written above them."""

    def __init__(self) -> None:
        self.imports: dict[str, set[str]] = {}
        self.constants: dict[str, str] = {}
        self.tag_functions: dict[tuple[str, Layout, str], str] = {}
        self.functions: list[str] = []

    def import_from(self, source: str, *names: str) -> None:
        self.imports.setdefault(source, set()).update(names)

    def use(self, *names: str) -> None:
        self.import_from("headrace.protocol.primitives", *names)

    def use_type(self, *names: str) -> None:
        self.import_from("headrace.protocol.types", *names)

    def read(self, codes: str) -> str:
        return self._compiled("read", codes, "unpack_from")

    def rows(self, codes: str) -> str:
        return self._compiled("rows", codes, "iter_unpack")

    def write(self, codes: str) -> str:
        return self._compiled("write", codes, "pack")

    def _compiled(self, verb: str, codes: str, method: str) -> str:
        name = f"{verb}_{codes.replace('?', 't')}"
        self.import_from("struct", "Struct")
        self.constants[name] = f'Struct(">{codes}").{method}'
        return name

    def numbers(self, verb: str, scalar: str, after: str = "") -> str:
        """The table of shapes for an array of a fixed type: to `read` it and a byte `after` it, or to `write` it."""
        name = f"{verb}_{scalar}s" + (f"_{after}" if after else "")
        method = "unpack_from" if verb == "read" else "pack"
        self.use("Shapes")
        self.constants[name] = f'Shapes("{CODES[scalar][0]}", "{after}", "{method}")'
        return name

    def default(self, field: Field) -> str:
        text = default_of(field)
        if text == "ZERO_UUID":
            self.use_type("ZERO_UUID")
        return text

    def add_function(self, code: Code) -> None:
        self.functions.append("\n".join(code.lines))
