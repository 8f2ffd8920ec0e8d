"""tools/gen.py as a command, and the shape of the code it writes.

That every message is encoded right is tested against other codecs. Here small definitions show what the generator makes
of them: one function per layout, one run per struct call, the usual row at once, and an error for every bad byte.
"""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gen
import pytest
from wiregen.module import render_module
from wiregen.parser import parse

from headrace.protocol.errors import DecodeError, EncodeError

ROOT = Path(__file__).parents[3]

POINT = """\
# A point.
data Point
versions 0-2, flexible 2+
  x: int32
  y: int32
  label: string 1+
  shades: [Shade] 2+
    tone: int16
    weight: int8
"""


def render(tmp_path: Path, text: str) -> str:
    path = tmp_path / "point.wire"
    path.write_text(text)
    return render_module(parse(path))


def build(tmp_path: Path, text: str) -> Any:
    module = ModuleType("point")
    exec(render(tmp_path, text), module.__dict__)
    return module


def decode(module: Any, version: int, data: bytes, table: str = "point") -> Any:
    return getattr(module, f"decode_{table}")[version](data, memoryview(data), 0, len(data))


def encode(module: Any, version: int, message: Any, table: str = "point") -> bytes:
    return b"".join(getattr(module, f"encode_{table}")[version](message))


def function(text: str, name: str) -> str:
    start = text.index(f"def {name}(")
    return text[start : text.index("\n\n\n", start)]


# --- the command


@pytest.fixture
def package(tmp_path: Path) -> list[str]:
    """Arguments of gen.py for a definition of one file and an empty package."""
    definitions = tmp_path / "definitions"
    definitions.mkdir()
    (definitions / "point.wire").write_text(POINT)
    return ["--definitions", str(definitions), "--package", str(tmp_path / "package")]


def test_the_committed_modules_are_what_the_definitions_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert gen.main(["--check"]) == 0, capsys.readouterr().err


def test_a_first_run_writes_the_package_and_a_second_changes_nothing(package: list[str], tmp_path: Path) -> None:
    assert gen.main(package) == 0
    point = tmp_path / "package" / "point.py"
    before = point.stat().st_mtime_ns
    assert sorted(path.name for path in point.parent.iterdir()) == ["__init__.py", "point.py"]
    assert gen.main([*package, "--check"]) == 0
    assert gen.main(package) == 0
    assert point.stat().st_mtime_ns == before


def test_check_names_what_differs_and_changes_nothing(
    package: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gen.main(package)
    point = tmp_path / "package" / "point.py"
    point.write_text("# edited\n")
    (point.parent / "stale.py").write_text("")
    (point.parent / "__init__.py").unlink()
    assert gen.main([*package, "--check"]) == 1
    error = capsys.readouterr().err
    assert "__init__.py, point.py, stale.py" in error
    assert "make gen" in error
    assert point.read_text() == "# edited\n"


def test_modules_without_a_definition_are_removed(package: list[str], tmp_path: Path) -> None:
    gen.main(package)
    stale = tmp_path / "package" / "stale.py"
    stale.write_text("")
    assert gen.main(package) == 0
    assert not stale.exists()


def test_a_bad_definition_fails_with_its_place(
    package: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "definitions" / "point.wire").write_text("data Point\nversions 0\n  x: int31\n")
    assert gen.main(package) == 1
    assert "point.wire:3: int31 is not a type" in capsys.readouterr().err


def test_the_output_does_not_depend_on_hash_seeds(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        command = [sys.executable, str(ROOT / "tools/gen.py"), "--package", str(tmp_path / seed)]
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True)
    first, second = ({path.name: path.read_text() for path in (tmp_path / seed).iterdir()} for seed in ("1", "2"))
    assert first == second


# --- the shape of the code


def test_versions_of_one_layout_share_their_functions() -> None:
    from headrace.protocol.messages import fetch

    assert fetch.decode_request[15] is fetch.decode_request[16]
    assert fetch.encode_request[15] is fetch.encode_request[16]
    assert fetch.decode_request[16] is not fetch.decode_request[17]
    assert sorted(fetch.decode_request) == list(range(4, 19))


def test_a_run_of_fixed_fields_is_one_call_with_the_next_length_folded_in(tmp_path: Path) -> None:
    text = render(tmp_path, POINT)
    assert "x, y = read_ii(buffer, p)" in function(text, "_decode_point_0")
    assert "x, y, n = read_iih(buffer, p)" in function(text, "_decode_point_1")
    assert "x, y, n = read_iiB(buffer, p)" in function(text, "_decode_point_2")
    assert "parts.append(write_iiB(x, y, n + 1))" in function(text, "_encode_point_2")


def test_the_check_of_a_length_covers_the_run_behind_it(tmp_path: Path) -> None:
    text = "# A.\ndata Point\nversions 0\n  label: string\n  x: int32\n  y: int32\n"
    decoder = function(render(tmp_path, text), "_decode_point_0")
    assert decoder.count(" > end") == 1
    assert "if n < 0 or q + 8 > end:" in decoder


def test_rows_of_one_size_are_walked_in_one_call(tmp_path: Path) -> None:
    decoder = function(render(tmp_path, POINT), "_decode_point_2")
    assert "buffer[p + 3 : q : 4].count(0) == n" in decoder
    assert "for tone, weight in rows_hbx(view[p:q]):" in decoder


def test_rows_with_and_without_tags_are_read_alike(tmp_path: Path) -> None:
    point = build(tmp_path, POINT)
    shades = [point.Shade(1, 2), point.Shade(3, 4, ((9, b"!"),)), point.Shade(-5, 6)]
    for rows in (shades, shades[:1], shades[1:2], [shades[0], shades[2]], []):
        message = point.Point(1, 2, "a", rows)
        assert decode(point, 2, encode(point, 2, message)) == message


def test_a_field_may_have_any_name(tmp_path: Path) -> None:
    fields = (
        "p",
        "q",
        "n",
        "t",
        "end",
        "at",
        "buffer",
        "tags",
        "parts",
        "body",
        "message",
        "new",
        "index",
        "count",
        "a",
    )
    text = "# A.\ndata Point\nversions 0, flexible 0+\n" + "".join(f"  {name}: string\n" for name in fields)
    rows = "  rows: [Row]\n    rows: string\n    p: int8\n    unknown: int8 tag 0\n  rows_row: int8\n"
    point = build(tmp_path, text + rows)
    message = point.Point(*fields, [point.Row("x", 1, 2), point.Row("y", 3)], 7)
    assert decode(point, 0, encode(point, 0, message)) == message


EVERYTHING = """\
# Every type in every place.
data Point
versions 0-1, flexible 1+
  int8: int8 = -8
  uint16: uint16
  uint32: uint32
  float64: float64
  yes: bool = true
  uuid: uuid
  some: bytes
  nothing: bytes? = null
  records: records?
  batch: records
  inner: Inner
    text: string
    deep: Deep
      x: int64
  maybe: Inner? = null
  numbers: [int64]? = null
  uuids: [uuid]
  texts: [string]? = null
  old: string? inflexible
  tagged: Inner? 1+ tag 0 = null
  list: [string] 1+ tag 1
  flag: bool 1+ tag 2
  given: Inner? 1+ tag 4
  rows: [Row]? 1+ tag 3 = null
    when: float64
    rare: [int32]? rare
"""


@pytest.mark.parametrize("version", [0, 1])
def test_every_type_goes_there_and_back_in_every_place(tmp_path: Path, version: int) -> None:
    point = build(tmp_path, EVERYTHING)
    inner = point.Inner("tief", point.Deep(-1))
    full = point.Point(
        7, 65535, 2**32 - 1, -0.5, False, bytes(range(16)), b"abc", b"", b"rr", b"", inner, inner, [-1, 2**62],
        [b"u" * 16], ["", "ä" * 100], "old",
    )  # fmt: skip
    messages = [point.Point(), full, full._replace(numbers=[], texts=[], maybe=None, old=None, records=None)]
    if version:
        rows = [point.Row(1.5, None), point.Row(2.5, [1]), point.Row(3.5, [])]
        messages.append(full._replace(tagged=inner, list=["x"], flag=True, given=inner, rows=rows))
        messages.append(full._replace(given=None))
        messages.append(full._replace(flag=True, rows=[], unknown_tags=((200, b"?"),)))
    for message in messages:
        again = decode(point, version, encode(point, version, message))
        assert plain(again) == plain(message)


def test_a_struct_that_may_be_null_has_a_mark_before_it(tmp_path: Path) -> None:
    text = "# A.\ndata Point\nversions 0, flexible 0+\n  a: Row? = null\n  b: Row? tag 0\n  c: Row? tag 1 = null\n"
    text += "struct Row\n  x: int8\n"
    point = build(tmp_path, text)
    row = point.Row(7)
    for message, data in (
        (point.Point(), b"\xff" + b"\0"),
        (point.Point(row, row, row), b"\x01\x07\0" + b"\x02" + b"\x00\x03\x01\x07\0" + b"\x01\x03\x01\x07\0"),
        (point.Point(None, None, None), b"\xff" + b"\x01" + b"\x00\x01\x00"),  # null is not the default of b
    ):
        assert encode(point, 0, message) == data
        assert decode(point, 0, data) == message


def test_a_tagged_struct_with_empty_arrays_is_its_default_in_any_kind_of_sequence(tmp_path: Path) -> None:
    text = "# A.\ndata Point\nversions 0, flexible 0+\n  a: Row tag 0\n    rows: [int8]\n"
    point = build(tmp_path, text + "    inner: Inner\n      texts: [string]\n")
    sequences: list[Any] = [(), []]
    for rows in sequences:
        assert encode(point, 0, point.Point(point.Row(rows, point.Inner(rows)))) == b"\0"
    assert encode(point, 0, point.Point(point.Row([], point.Inner([""])))) != b"\0"
    with pytest.raises(EncodeError):
        encode(point, 0, point.Point(point.Row([], None)))


def plain(value: Any) -> Any:
    """Sequences as lists and views as bytes, so that messages compare by content."""
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return bytes(value) if isinstance(value, memoryview) else value


@pytest.mark.parametrize("version", [0, 1])
def test_every_cut_and_every_extra_byte_is_an_error(tmp_path: Path, version: int) -> None:
    point = build(tmp_path, EVERYTHING)
    inner = point.Inner("deep", point.Deep(5))
    message = point.Point(nothing=b"n", records=b"r", inner=inner, maybe=inner, uuids=[b"u" * 16], texts=["a"], old="o")
    if version:
        message = message._replace(tagged=inner, list=["x"], rows=[point.Row(1.0, [1, 2])])
    data = encode(point, version, message)
    for size in range(len(data)):
        with pytest.raises(DecodeError) as caught:
            # The bytes that are missing follow in the buffer: they belong to another frame.
            point.decode_point[version](data, memoryview(data), 0, size)
        assert caught.value.position <= size
    with pytest.raises(DecodeError, match="1 bytes are left over"):
        decode(point, version, data + b"\0")


def test_a_version_without_a_field_refuses_its_value_unless_it_may_be_ignored(tmp_path: Path) -> None:
    text = (
        "# A.\ndata Point\nversions 0-1\n  x: int8 1+\n  y: int8 1+ ignorable\n  z: string? 1+ = null\n  w: [int8] 1+\n"
    )
    point = build(tmp_path, text)
    assert encode(point, 0, point.Point(y=5)) == b""
    for message, field in ((point.Point(x=1), "x"), (point.Point(z=""), "z"), (point.Point(w=[1]), "w")):
        with pytest.raises(EncodeError, match="which version 0 cannot carry") as caught:
            encode(point, 0, message)
        assert caught.value.field == field
