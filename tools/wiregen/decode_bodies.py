"""Decoding what has a variable size: strings, bytes, records, and arrays of all kinds.

Each function here is called behind a run whose last value, `n`, announces the body.
"""

from typing import TYPE_CHECKING

from wiregen.layout import CODES, Layout, Slot
from wiregen.model import Field
from wiregen.plan import Place, Segment, Value, segments

if TYPE_CHECKING:
    from wiregen.decode import Reading


def read_sized(reading: "Reading", place: Place, slot: Slot, following: Segment | None) -> None:
    """A string, bytes, or records."""
    path, local, code = place.path_of(slot.field), place.local(slot.field), reading.code
    if slot.is_compact:
        reading.rest("text_rest" if slot.field.type == "string" else "uvarint_rest", path)
    if not slot.is_nullable:
        _sized_value(reading, place, slot, following)
    else:
        with code.block("if n:" if slot.is_compact else "if n >= 0:"):
            _sized_value(reading, place, slot, following)
        with code.block("else:" if slot.is_compact else "elif n == -1:"):
            code(f"{local} = None", "q = p")
            if following and following.size:
                _fit(reading, "", following, place.path)
        if not slot.is_compact:
            reading.module.use("negative")
            with code.block("else:"):
                code(f'raise negative(n, "{path}", p)')
    reading.here, reading.is_checked = "q", True


def _sized_value(reading: "Reading", place: Place, slot: Slot, following: Segment | None) -> None:
    """What a length that is not null announces; `q` is behind it."""
    local = place.local(slot.field)
    length = "n - 1" if slot.is_compact else "n"
    impossible = "" if slot.is_nullable else "not n or " if slot.is_compact else "n < 0 or "
    reading.code(f"q = p + {length}")
    _fit(reading, impossible, following, place.path, name=slot.field.name, length=length)
    match slot.field.type:
        case "string":
            reading.has_text = True
            reading.code(f'at = "{place.path_of(slot.field)}"')
            hint, value = "str", "buffer[p:q].decode()"
        case "bytes":
            hint, value = "bytes", "bytes(view[p:q])"
        case _:
            hint, value = "memoryview", "view[p:q]"
    if slot.is_nullable:
        reading.declare(local, f"{hint} | None", value)
    else:
        reading.code(f"{local} = {value}")


def _fit(
    reading: "Reading", impossible: str, following: Segment | None, path: str, *, name: str = "", length: str = ""
) -> None:
    """Refuse if `q`, or the run that follows there, is not within the frame."""
    size = following.size if following else 0
    end = reading.end
    beyond = f"q > {end}" if not size else f"q >= {end}" if size == 1 else f"q + {size} > {end}"
    run = [f"{name}:n"] if name else []
    run += following.describe(path) if following else ()
    reading.module.use("cut")
    arguments = [f'"{path}"', f'"{" ".join(run)}"', "p", end, *([length] if length else [])]
    reading.code.refuse(f"{impossible}{beyond}", f"cut({', '.join(arguments)})")


def read_scalars(reading: "Reading", place: Place, slot: Slot, following: Segment | None) -> bool:
    """An array of fixed values. Whether the single byte that follows was read along."""
    local, kind, module, code = place.local(slot.field), slot.field.type, reading.module, reading.code
    path, name, size = place.path_of(slot.field), slot.field.name, CODES[slot.field.type][1]
    units = "n" if size == 1 else f"n * {size}"
    if slot.is_compact:
        reading.rest("uvarint_rest", path)
        code("n -= 1")
    if slot.is_nullable:
        if not slot.is_compact:
            module.use("negative")
            reading.code.refuse("n < -1", f'negative(n, "{path}", p)')
        code(f"q = p + {units} if n > 0 else p")
        _fit(reading, "", following, place.path, name=name, length="q - p")
    else:
        code(f"q = p + {units}")
        length = units if size == 1 else f"{units} if n > 0 else n"
        _fit(reading, "n < 0 or ", following, place.path, name=name, length=length)
    if following and following.codes == "B" and not slot.is_nullable:
        shape = module.numbers("read", kind, after="B")
        code(f"*{local}, {'n' if following.body else 't'} = {shape}[n](buffer, p)", "p = q + 1")
        return True
    value = f"[*{module.numbers('read', kind)}[n](buffer, p)]"
    code(f"{local} = {value} if n >= 0 else None" if slot.is_nullable else f"{local} = {value}")
    reading.here, reading.is_checked = "q", True
    return False


def read_array(reading: "Reading", place: Place, slot: Slot) -> None:
    """An array of strings or rows, null if it may be."""
    local, code = place.local(slot.field), reading.code
    item = slot.row.struct.name if slot.row else "str"
    if slot.is_nullable:
        reading.declare(local, f"list[{item}] | None", "None")
        if slot.is_compact:  # the whole varint first: one that is longer than it needs to be may be null, too
            reading.rest("uvarint_rest", place.path_of(slot.field))
        with code.block("if n:" if slot.is_compact else "if n != -1:"):
            _count(reading, place, slot)
            code(f"{local} = []")
            _items(reading, place, slot)
    elif slot.field.is_rare and slot.is_compact:
        reading.declare(local, f"list[{item}]", "[]")
        with code.block("if n != 1:"):
            _count(reading, place, slot)
            _items(reading, place, slot)
    else:
        _count(reading, place, slot)
        reading.declare(local, f"list[{item}]", "[]")
        _items(reading, place, slot)


def _count(reading: "Reading", place: Place, slot: Slot) -> None:
    """Make `n` the number of rows, after a check that so many could be there."""
    path = place.path_of(slot.field)
    size = slot.row.minimal_size if slot.row else 1 if slot.is_compact else 2
    if slot.is_compact:
        if not slot.is_nullable:
            reading.rest("uvarint_rest", path)
        reading.code("n -= 1")
    reading.module.use("crowded")
    impossible = "" if slot.is_nullable and slot.is_compact else "n < 0 or "
    rows = "n" if size == 1 else f"n * {size}"
    reading.code.refuse(f"{impossible}{rows} > {reading.end} - p", f'crowded(n, {size}, "{path}", p, {reading.end})')


def _items(reading: "Reading", place: Place, slot: Slot) -> None:
    row = slot.row
    if row is None:
        _texts(reading, place, slot)
    elif not row.has_fixed_size(and_rare=row.is_flexible):
        _rows(reading, place, slot)
    elif not row.is_flexible:
        reading.code(f"q = p + n * {row.minimal_size}")
        _fixed_rows(reading, place, slot)
    else:
        # Rare and tagged fields are rare. Their lengths, column by column, tell whether all rows have one size.
        columns = [*_rare_bytes(row), (row.minimal_size - 1, 0)]
        size = row.minimal_size
        terms = [f"buffer[p + {at} : q : {size}].count({byte}) == n" for at, byte in columns]
        reading.code(f"q = p + n * {size}")
        reading.code.condition("if", ["n > 1", *terms], "and")
        reading.code.depth += 1
        _fixed_rows(reading, place, slot)
        reading.code.depth -= 1
        with reading.code.block("else:"):
            _rows(reading, place, slot)


def _rare_bytes(row: Layout) -> list[tuple[int, int]]:
    """Where the lengths of rare fields are in a row of fixed size, and what they are there: 0 for null, 1 for empty."""
    found: list[tuple[int, int]] = []
    offset = 0
    for slot in row.slots:
        if not slot.is_fixed:
            found.append((offset, 0 if slot.is_nullable else 1))
        offset += slot.minimal_size
    return found


def _texts(reading: "Reading", place: Place, slot: Slot) -> None:
    path, name, end, code = place.path_of(slot.field), slot.field.name, reading.end, reading.code
    reading.has_text = True
    with code.block("for _ in range(n):"):
        if slot.is_compact:
            reading.code.refuse(f"p >= {end}", f'cut("{place.path}", "{name}:1", p, {end})')
            code("n = buffer[p]", "p += 1")
            reading.rest("text_rest", path)
            code("q = p + n - 1")
            _fit(reading, "not n or ", None, place.path, name=name, length="n - 1")
        else:
            reading.code.refuse(f"{end} - p < 2", f'cut("{place.path}", "{name}:2", p, {end})')
            code(f"(n,) = {reading.module.read('h')}(buffer, p)", "p += 2", "q = p + n")
            _fit(reading, "n < 0 or ", None, place.path, name=name, length="n")
        code(f'at = "{path}"', f"{place.local(slot.field)}.append(buffer[p:q].decode())", "p = q")


def _rows(reading: "Reading", place: Place, slot: Slot) -> None:
    inside = place.inside(slot)
    with reading.code.block("for _ in range(n):"):
        if inside.layout.is_flexible:
            _usual_row(reading, place, slot)
        reading.plan(inside)
        reading.build(inside, f"{place.local(slot.field)}.append(", ")")


def _usual_row(reading: "Reading", place: Place, slot: Slot) -> None:
    """A row whose rare fields are empty has a longer first run: read that, and go on if it is as expected."""
    inside, code = place.inside(slot), reading.code
    known: dict[Field, str] = {}
    conditions: list[str] = []

    def fold(at: Place, rare: Slot, is_in_first_run: bool) -> Value | None:
        if not is_in_first_run:
            return None
        local = "abcd"[len(known)]
        known[rare.field] = _nothing(rare)
        conditions.append(f"not {local}" if rare.is_nullable else f"{local} == 1")
        return Value("B", 1, local, at.path_of(rare.field))

    planned = segments(inside, fold=fold)
    if not known:
        return
    with code.block(f"if {reading.end} - p >= {planned[0].size}:"):
        reading.unpack(planned[0])
        with code.block(f"if {' and '.join(conditions)}:"):
            code(f"p += {planned[0].size}")
            reading.segments(planned, inside.path, was_read=True)
            reading.build(inside, f"{place.local(slot.field)}.append(", ")", known)
            code("continue")


def _fixed_rows(reading: "Reading", place: Place, slot: Slot) -> None:
    """Rows of one size up to `q`, none with rare or tagged fields: one call of C code walks them all."""
    assert slot.row
    layout, code, inside = slot.row, reading.code, place.inside(slot)
    fixed = tuple(each for each in layout.slots if each.is_fixed)
    codes = "".join(CODES[each.field.type][0] if each.is_fixed else "x" for each in layout.slots)
    codes += "x" if layout.is_flexible else ""
    targets = [inside.local(each.field) for each in fixed]
    code.targets("for ", targets, f" in {reading.module.rows(codes)}(view[p:q]):")
    code.depth += 1
    known = {each.field: _nothing(each) for each in layout.slots if not each.is_fixed}
    untagged = Place(Layout(layout.struct, fixed, (), layout.absent, is_flexible=False), inside.path, inside.names)
    reading.build(untagged, f"{place.local(slot.field)}.append(", ")", known)
    code.depth -= 1
    code("p = q")


def _nothing(slot: Slot) -> str:
    return "None" if slot.is_nullable else "[]"
