"""Encoders: one straight-line function per layout, which returns the parts of one gathered write.

A run of fixed fields is one `pack`, with the length or tag byte that follows folded in while it is a single byte. Rows
are unpacked whole, which costs less than reading attribute by attribute, and as `row + ()`: that is a plain tuple, and
making one and taking it apart is quicker than taking a NamedTuple apart. Values that do not fit are not looked for
beforehand: what `pack` or `encode` raises is turned into an EncodeError by `blame`, which then searches for the field.
"""

from wiregen.code import Code, Module
from wiregen.layout import HEAD_SIZES, Layout, Slot, describe_versions
from wiregen.model import NEVER, Field, Message, snake_case
from wiregen.plan import Names, Place, Segment, Value, join, segments


def emit_encoder(module: Module, message: Message, layout: Layout, versions: tuple[int, ...]) -> str:
    """Add the encoder of one layout to the module; its name."""
    name = f"_encode_{message.table}_{versions[0]}"
    module.use_type("Part")
    module.import_from("headrace.protocol.blame", "UNENCODABLE", "blame")
    function = Writing(module, describe_versions(versions))
    place = Place(layout, "", Names())
    function.unpack(place, "message")
    function.struct(place)
    whole = Code()
    with whole.block(f"def {name}(message: {message.body.name}) -> list[Part]:"):
        whole(f'"""{describe_versions(versions).capitalize()}."""', "parts: list[Part] = []")
        with whole.block("try:"):
            whole(*function.code.lines)
        with whole.block("except UNENCODABLE as error:"):
            whole("raise blame(message, error)")
        whole("return parts")
    module.add_function(whole)
    return name


class Writing:
    """One function under construction: `parts` is what it returns, `n` the length or count of what is written next."""

    def __init__(self, module: Module, versions: str) -> None:
        self.module = module
        self.versions = versions
        self.code = Code(margin=8)

    # --- structs

    def targets(self, place: Place) -> list[str]:
        """A local for each field of a row, for one unpacking."""
        names = place.locals()
        if place.layout.struct.keeps_unknown_tags:
            names.append(place.names.local(place.path, "unknown_tags"))
        return names

    def unpack(self, place: Place, source: str) -> None:
        names = self.targets(place)
        if names:
            self.code.targets("", names, f" = {source}")

    def struct(self, place: Place) -> None:
        """Write a struct whose fields are in their locals."""
        self.check(place)
        self.segments(segments(place))

    def row(self, place: Place) -> None:
        """Like `struct`; with a shorter path in flexible versions where the definition calls fields rare."""
        layout = place.layout
        rare = [slot for slot in layout.slots if slot.field.is_rare]
        if not rare or not layout.is_flexible:
            self.struct(place)
            return
        self.check(place)
        some = []
        for slot in rare:
            local = place.local(slot.field)
            # Where null is not allowed, None must not pass as empty: the long way refuses it.
            some += [f"{local} is not None"] if slot.is_nullable else [local, f"{local} is None"]
        self.code.condition("if", some + self.tagged(place))
        self.code.depth += 1
        self.segments(segments(place))
        self.code.depth -= 1
        with self.code.block("else:"):
            self.segments(segments(place, fold=_nothing, without_tags=True))

    def segments(self, planned: list[Segment]) -> None:
        """Write segment by segment; the constant end of a row joins records that are empty."""
        for index, segment in enumerate(planned):
            tail = planned[index + 1] if index + 2 == len(planned) else None
            body = segment.body
            if (
                segment.place
                and body
                and tail
                and body.field.type == "records"
                and body.is_nullable
                and tail.is_constant
            ):
                self.records(segment.place, body, segment.values, tail.values)
                return
            self.segment(segment)

    def segment(self, segment: Segment) -> None:
        for opened in segment.opened:
            path, _, name = opened.path.rpartition(".")
            self.unpack(opened, opened.names.local(path, name))
            self.check(opened)
        if segment.place is None:
            if segment.values:
                self.add(segment.values)
        elif segment.body is None:
            self.tags(segment.place, segment.values)
        else:
            self.body(segment.place, segment.body, segment.values)

    def check(self, place: Place) -> None:
        """Refuse what this version cannot carry: values of fields it does not have, null, uuids of another length."""
        layout = place.layout
        for field in layout.absent:
            if not field.is_ignorable:
                self.module.use("absent")
                self.code.refuse(
                    self.differs(field, place.local(field)), f'absent("{place.path_of(field)}", "{self.versions}")'
                )
        if layout.struct.keeps_unknown_tags and not layout.is_flexible:
            self.module.use("absent")
            unknown = place.names.local(place.path, "unknown_tags")
            self.code.refuse(unknown, f'absent("{join(place.path, "unknown_tags")}", "{self.versions}")')
        for slot in (*layout.slots, *layout.tagged):
            field, local = slot.field, place.local(slot.field)
            if field.nullable != NEVER and not slot.is_nullable:
                self.module.use("null")
                self.code.refuse(f"{local} is None", f'null("{place.path_of(field)}", "{self.versions}")')
            if field.type == "uuid" and slot.is_fixed:
                self.module.use("wrong_size")
                self.code.refuse(f"len({local}) != 16", f'wrong_size({local}, "{place.path_of(field)}")')

    def differs(self, field: Field, local: str) -> str:
        """The condition that a value is not the field's default."""
        default = self.module.default(field)
        if default == "None":
            return f"{local} is not None"
        if default == "()":
            # `len` rather than truth where null is not allowed: None must not pass as empty.
            return f"len({local})" if field.nullable == NEVER else f"{local} is None or {local}"
        if default in ("True", "False"):
            return f"not {local}" if default == "True" else local
        if field.struct and any(each.is_array or each.struct for each in field.struct.fields):
            self.module.use("is_default")
            return f"{local} is not {default} and not is_default({local}, {default})"
        if field.struct:
            return f"{local} is not {default} and {local} != {default}"
        return f"{local} != {default}"

    def tagged(self, place: Place) -> list[str]:
        """Conditions of which one is true if the struct has tagged fields to write."""
        return [
            place.names.local(place.path, "unknown_tags"),
            *(self.differs_at_first_sight(slot.field, place.local(slot.field)) for slot in place.layout.tagged),
        ]

    def differs_at_first_sight(self, field: Field, local: str) -> str:
        """Like `differs`, but an equal copy of a default struct may pass as different: the tag writer looks closer."""
        if field.struct and not field.is_array and field.default != "null":
            return f"{local} is not {self.module.default(field)}"
        text = self.differs(field, local)
        return f"({text})" if " or " in text else text

    # --- runs of fixed fields

    def add(self, values: list[Value], code: str = "", last: str = "", then: str = "") -> None:
        """Add a packed run with one more value at its end, and what may stand right behind it."""
        codes = "".join(value.code for value in values) + code
        if not codes:
            self.code(f"parts.append({then})")
        elif set(codes) == {"x"}:
            self.code(f"parts.append({_bytes('0', len(codes))})")
        else:
            arguments = [value.local for value in values if value.local] + ([last] if last else [])
            end = f") + {then})" if then else "))"
            self.code.call(f"parts.append({self.module.write(codes)}(", arguments, end)

    def add_counted(self, slot: Slot, values: list[Value], path: str) -> None:
        """Add a run followed by the length or count `n`."""
        if slot.is_compact:
            is_text = slot.field.type == "string" and not slot.field.is_array
            self.add_compact(values, path, is_text=is_text)
        else:
            self.add(values, slot.head, "n")

    def add_compact(self, values: list[Value], path: str, *, is_text: bool) -> None:
        self.module.use("text_length" if is_text else "uvarint")
        long = f'text_length(n, "{path}")' if is_text else "uvarint(n + 1)"
        if not values:
            self.module.use("ONE_BYTE")
            self.code(f"parts.append(ONE_BYTE[n + 1] if n < 127 else {long})")
            return
        with self.code.block("if n < 127:"):
            self.add(values, "B", "n + 1")
        with self.code.block("else:"):
            self.add(values, then=long)

    def add_null(self, slot: Slot, values: list[Value]) -> None:
        """Add a run followed by null."""
        if slot.head == "B":
            self.add(values, "x")
        elif not values:
            self.code(f"parts.append({_bytes('xff', HEAD_SIZES[slot.head])})")
        else:
            self.add(values, slot.head, "-1")

    # --- what has a variable size

    def body(self, place: Place, slot: Slot, values: list[Value]) -> None:
        if not slot.is_nullable:
            self.present(place, slot, values)
            return
        with self.code.block(f"if {place.local(slot.field)} is None:"):
            self.add_null(slot, values)
        with self.code.block("else:"):
            self.present(place, slot, values)

    def present(self, place: Place, slot: Slot, values: list[Value]) -> None:
        local, path, code = place.local(slot.field), place.path_of(slot.field), self.code
        if slot.is_struct:
            inside = place.inside(slot)
            self.add(values, slot.head, "1")
            self.unpack(inside, local)
            self.struct(inside)
        elif slot.is_scalar_array:
            code(f"n = len({local})")
            if slot.field.type == "uuid":
                self.module.use("wrong_sizes")
                self.code.refuse(f"any(len(uuid) != 16 for uuid in {local})", f'wrong_sizes({local}, "{path}")')
            self.add_counted(slot, values, path)
            code(f"parts.append({self.module.numbers('write', slot.field.type)}[n](*{local}))")
        elif slot.field.is_array:
            code(f"n = len({local})")
            self.add_counted(slot, values, path)
            self.items(place, slot)
        else:
            is_text = slot.field.type == "string"
            code(*((f"body = {local}.encode()", "n = len(body)") if is_text else (f"n = len({local})",)))
            self.add_counted(slot, values, path)
            code("parts.append(body)" if is_text else f"parts.append({local})")

    def records(self, place: Place, slot: Slot, values: list[Value], tail: list[Value]) -> None:
        """Records with nothing but constants behind them: where there are none, the whole is one run."""
        local = place.local(slot.field)
        with self.code.block(f"if {local}:"):
            self.present(place, slot, values)
            self.add(tail)
        with self.code.block("else:"):
            length = Value("B", 1, f"{local} is not None", place.path_of(slot.field))  # 0 for null, 1 for empty
            self.add([*values, length, *tail])

    def items(self, place: Place, slot: Slot) -> None:
        local, path = place.local(slot.field), place.path_of(slot.field)
        if slot.row is None:
            with self.code.block(f"for text in {local}:"):
                self.code("body = text.encode()", "n = len(body)")
                if slot.is_compact:
                    self.add_compact([], path, is_text=True)
                else:
                    self.add([], "h", "n")
                self.code("parts.append(body)")
            return
        inside = place.inside(slot)
        row = place.names.row(local)
        self.code(f"for {row} in {local}:")
        self.code.depth += 1
        self.unpack(inside, f"{row} + ()")
        self.row(inside)
        self.code.depth -= 1

    # --- tagged fields

    def tags(self, place: Place, values: list[Value]) -> None:
        """The tagged fields of a struct; without any, their zero count joins the run before them."""
        unknown = place.names.local(place.path, "unknown_tags")
        self.module.use("tag_section")
        section = f"tag_section({unknown})"
        if place.layout.tagged:
            names = [place.local(slot.field) for slot in place.layout.tagged]
            section = f"{emit_tag_writer(self.module, place, self.versions)}({', '.join([*names, unknown])})"
        elif not values:
            self.code(f'parts.append({section} if {unknown} else b"\\0")')
            return
        self.code.condition("if", self.tagged(place))
        self.code.depth += 1
        self.add(values, then=section)
        self.code.depth -= 1
        with self.code.block("else:"):
            self.add(values, "x")


def _nothing(place: Place, slot: Slot, is_in_first_run: bool) -> Value:  # noqa: ARG001 - it joins any run
    """The length of a rare field without a value: 0 for null, 1 for empty where null is not allowed."""
    path = place.path_of(slot.field)
    return Value("x", 1, "", path) if slot.is_nullable else Value("B", 1, "1", path)


def _bytes(escape: str, count: int) -> str:
    return 'b"' + f"\\{escape}" * count + '"'


def emit_tag_writer(module: Module, place: Place, versions: str) -> str:
    """A function that encodes the tagged fields of one struct, called when at least one has a value."""
    key = ("write", place.layout, place.path)
    if key in module.tag_functions:
        return module.tag_functions[key]
    layout = place.layout
    count = sum(1 for verb, other, _ in module.tag_functions if verb == "write" and other.struct == layout.struct)
    name = f"_write_{snake_case(layout.struct.name)}_tags" + (f"_{count + 1}" if count else "")
    module.tag_functions[key] = name
    module.use_type("Part", "UnknownTags")
    module.import_from("typing", "Any")
    function = Writing(module, versions)
    code = function.code
    inside = Place(layout, place.path, Names())
    unknown = inside.names.local(place.path, "unknown_tags")
    code("known: list[tuple[int, bytes]] = []")
    for slot in layout.tagged:
        with code.block(f"if {function.differs(slot.field, inside.local(slot.field))}:"):
            code("parts: list[Part] = []" if slot is layout.tagged[0] else "parts = []")
            alone = Place(Layout(layout.struct, (slot,), (), (), is_flexible=False), inside.path, inside.names)
            for segment in segments(alone):
                function.segment(segment)
            code(f'known.append(({slot.field.tag}, b"".join(parts)))')
    code(f"return tag_section({unknown}, tuple(known))")
    whole = Code()
    parameters = [f"{inside.local(slot.field)}: Any" for slot in layout.tagged]
    whole.call(f"def {name}(", [*parameters, f"{unknown}: UnknownTags"], ") -> bytes:")
    whole.depth += 1
    whole(f'"""The tagged fields of {layout.struct.name} that differ from their defaults, and the unknown ones."""')
    whole(*code.lines)
    module.add_function(whole)
    return name
