"""Decoders: one straight-line function per layout.

Safety: `p` never passes `end`. A fixed run is checked before it is read; the check of a variable part covers the run that
follows it (`q + 9 > end`), so that there is one comparison per variable part. A count is checked against the smallest rows it
could mean before anything is allocated. Errors name the field: cold code, called as `raise cut(...)`.
"""

from wiregen.code import Code, Module, tuple_of
from wiregen.layout import CODES, Layout, Slot, describe_versions
from wiregen.model import Message, snake_case
from wiregen.plan import Names, Place, Segment, segments


def emit_decoder(module: Module, message: Message, layout: Layout, versions: tuple[int, ...]) -> str:
    """Add the decoder of one layout to the module; its name."""
    name = f"_decode_{message.table}_{versions[0]}"
    class_name = message.body.name
    place = Place(layout, "", Names())
    function = _Function(module, "end")
    function.plan(place)
    function.code("if p != end:", f'    raise not_at_end("{class_name}", p, end)')
    module.use("not_at_end")
    function.build(place, "return ")
    module.use_type("Buffer")
    function.finish(
        f"def {name}(buffer: Buffer, view: memoryview, p: int, end: int) -> {class_name}:",
        f'"""{describe_versions(versions).capitalize()}."""',
    )
    return name


class _Function:
    """One function under construction. `end` names the local that nothing may be read beyond."""

    def __init__(self, module: Module, end: str) -> None:
        self.module = module
        self.end = end
        self.code = Code()
        self.here = "p"  # the local that holds the position: `q` right behind something of variable size
        self.is_checked = False  # the next run is known to fit
        self.has_text = False
        self.has_tags = False
        self.declared: set[str] = set()  # locals that have their type already

    def finish(self, signature: str, about: str) -> None:
        """Wrap the lines into a function and add it to the module."""
        whole = Code()
        with whole.block(signature):
            whole(about)
            if self.has_tags:
                whole("tags: UnknownTags")
                self.module.use_type("UnknownTags")
            if not self.has_text:
                whole(*self.code.lines)
            else:
                self.module.use("not_text")
                with whole.block("try:"):
                    whole(*self.code.lines)
                with whole.block("except UnicodeDecodeError as error:"):
                    whole("raise not_text(error, at, p) from None")
        self.module.add_function(whole)

    def declare(self, local: str, kind: str, value: str) -> None:
        self.code(f"{local} = {value}" if local in self.declared else f"{local}: {kind} = {value}")
        self.declared.add(local)

    # --- structs

    def plan(self, place: Place) -> None:
        """Read every field of a struct into its local."""
        planned = segments(place)
        was_read = False
        for index, segment in enumerate(planned, 1):
            following = planned[index] if index < len(planned) else None
            if not was_read:
                self.run(segment, place.path)
            for complete in segment.complete:
                self.build(complete, f"{self.local_of(complete)} = ")
            was_read = False
            if segment.place and segment.body:
                was_read = self.body(segment.place, segment.body, following)
            elif segment.place:
                self.tags(segment.place)
            for closed in segment.closed:
                self.build(closed, f"{self.local_of(closed)} = ")
        self.settle()

    @staticmethod
    def local_of(place: Place) -> str:
        """The local of a struct that is a field of another."""
        path, _, name = place.path.rpartition(".")
        return place.names.local(path, name)

    def build(self, place: Place, opening: str, closing: str = "") -> None:
        self.module.use("new")
        self.code.call(f"{opening}new({place.layout.struct.name}, (", self.values(place), f")){closing}")

    def values(self, place: Place, tags: str = "tags") -> list[str]:
        """What a row is made of: locals, and defaults for fields that this version does not have."""
        layout = place.layout
        values = [
            place.local(field) if layout.slot(field) else self.module.default(field) for field in layout.struct.fields
        ]
        if layout.has_unknown_tags:
            values.append(tags if layout.is_flexible else "()")
        return [f"{values[0]},"] if len(values) == 1 else values

    # --- runs of fixed fields

    def run(self, segment: Segment, path: str) -> None:
        if not segment.size:
            return
        here, code = self.here, self.code
        if not self.is_checked:
            description = " ".join(segment.describe(path))
            self.module.use("cut")
            lacking = f"{here} >= {self.end}" if segment.size == 1 else f"{self.end} - {here} < {segment.size}"
            self.refuse(lacking, f'cut("{path}", "{description}", {here}, {self.end})')
        targets = [value.local for value in segment.values]
        if segment.head:
            targets.append("n" if segment.body else "t")
        if segment.codes == "B":
            code(f"{targets[0]} = buffer[{here}]")
        else:
            target = ", ".join(targets) if len(targets) > 1 else f"({targets[0]},)"
            code(f"{target} = {self.module.read(segment.codes)}(buffer, {here})")
        code(f"p += {segment.size}" if here == "p" else f"p = {here} + {segment.size}")
        self.here = "p"
        self.is_checked = False

    def settle(self) -> None:
        """Bring the position back into `p` where control flow joins."""
        if self.here != "p":
            self.code(f"p = {self.here}")
            self.here = "p"
        self.is_checked = False

    def rest(self, function: str, path: str) -> None:
        """The rest of a varint longer than one byte, and its offset of one."""
        self.module.use(function)
        self.code("if n > 127:", f'    n, p = {function}(buffer, p, {self.end}, n, "{path}")', "n -= 1")

    # --- what has a variable size

    def body(self, place: Place, slot: Slot, following: Segment | None) -> bool:
        """Read the body that a head has announced. Whether the head of the following segment was read with it."""
        if slot.is_struct:
            self.nullable_struct(place, slot)
        elif slot.is_scalar_array:
            return self.scalars(place, slot, following)
        elif slot.field.is_array:
            self.array(place, slot)
        else:
            self.sized(place, slot, following)
        return False

    def beyond(self, following: Segment | None) -> str:
        """The condition that `q`, or the run that follows there, is not within the frame."""
        size = following.size if following else 0
        return f"q > {self.end}" if not size else f"q >= {self.end}" if size == 1 else f"q + {size} > {self.end}"

    def fit(self, place: Place, slot: Slot, following: Segment | None, unit: int) -> None:
        """Set `q` behind n units, after a check that these and the following run are there."""
        path = place.path_of(slot.field)
        size = "n" if unit == 1 else f"n * {unit}"
        run = [f"{slot.field.name}:n", *(following.describe(place.path) if following else ())]
        beyond = self.beyond(following)
        self.module.use("cut")
        description = f'"{place.path}", "{" ".join(run)}", p, {self.end}'
        if not slot.is_nullable:
            length = size if unit == 1 else f"{size} if n > 0 else n"
            self.code(f"q = p + {size}", f"if n < 0 or {beyond}:", f"    raise cut({description}, {length})")
            return
        if not slot.is_compact:
            self.module.use("negative")
            self.code("if n < -1:", f'    raise negative(n, "{path}", p)')
        self.code(f"q = p + {size} if n > 0 else p", f"if {beyond}:", f"    raise cut({description}, q - p)")

    def sized(self, place: Place, slot: Slot, following: Segment | None) -> None:
        """A string, bytes, or records."""
        path, local, code = place.path_of(slot.field), place.local(slot.field), self.code
        if slot.is_compact:
            function = "text_rest" if slot.field.type == "string" else "uvarint_rest"
            self.module.use(function)
            code("if n > 127:", f'    n, p = {function}(buffer, p, {self.end}, n, "{path}")')
        if not slot.is_nullable:
            self.sized_value(place, slot, following)
        else:
            with code.block("if n:" if slot.is_compact else "if n >= 0:"):
                self.sized_value(place, slot, following)
            with code.block("else:" if slot.is_compact else "elif n == -1:"):
                code(f"{local} = None", "q = p")
                if following and following.size:
                    run = " ".join(following.describe(place.path))
                    self.refuse(self.beyond(following), f'cut("{place.path}", "{run}", p, {self.end})')
            if not slot.is_compact:
                self.module.use("negative")
                with code.block("else:"):
                    code(f'raise negative(n, "{path}", p)')
        self.here, self.is_checked = "q", True

    def sized_value(self, place: Place, slot: Slot, following: Segment | None) -> None:
        """What a length that is not null announces; `q` is behind it."""
        path, local = place.path_of(slot.field), place.local(slot.field)
        length = "n - 1" if slot.is_compact else "n"
        run = " ".join([f"{slot.field.name}:n", *(following.describe(place.path) if following else ())])
        impossible = "" if slot.is_nullable else "not n or " if slot.is_compact else "n < 0 or "
        self.module.use("cut")
        self.code(f"q = p + {length}")
        self.refuse(f"{impossible}{self.beyond(following)}", f'cut("{place.path}", "{run}", p, {self.end}, {length})')
        match slot.field.type:
            case "string":
                self.has_text = True
                self.code(f'at = "{path}"')
                hint, value = "str", "buffer[p:q].decode()"
            case "bytes":
                hint, value = "bytes", "bytes(view[p:q])"
            case _:
                hint, value = "memoryview", "view[p:q]"
        if slot.is_nullable:
            self.declare(local, f"{hint} | None", value)
        else:
            self.code(f"{local} = {value}")

    def refuse(self, condition: str, error: str) -> None:
        self.code(f"if {condition}:", f"    raise {error}")

    def scalars(self, place: Place, slot: Slot, following: Segment | None) -> bool:
        """An array of fixed values; the byte that follows is read along."""
        local, kind = place.local(slot.field), slot.field.type
        if slot.is_compact:
            self.rest("uvarint_rest", place.path_of(slot.field))
        self.fit(place, slot, following, CODES[kind][1])
        if following and following.codes == "B" and not slot.is_nullable:
            target = "n" if following.body else "t"
            shape = self.module.numbers(kind, after="B", method="unpack_from")
            self.code(f"*{local}, {target} = {shape}[n](buffer, p)", "p = q + 1")
            return True
        shape = self.module.numbers(kind, method="unpack_from")
        value = f"[*{shape}[n](buffer, p)]"
        self.code(f"{local} = {value} if n >= 0 else None" if slot.is_nullable else f"{local} = {value}")
        self.here, self.is_checked = "q", True
        return False

    def array(self, place: Place, slot: Slot) -> None:
        """An array of strings or rows, null if it may be."""
        local = place.local(slot.field)
        item = slot.row.struct.name if slot.row else "str"
        if slot.is_nullable:
            self.declare(local, f"list[{item}] | None", "None")
            with self.code.block("if n:" if slot.is_compact else "if n != -1:"):
                self.count(place, slot)
                self.code(f"{local} = []")
                self.items(place, slot)
        elif slot.field.is_rare and slot.is_compact:
            self.declare(local, f"list[{item}]", "[]")
            with self.code.block("if n != 1:"):
                self.count(place, slot)
                self.items(place, slot)
        else:
            self.count(place, slot)
            self.declare(local, f"list[{item}]", "[]")
            self.items(place, slot)

    def count(self, place: Place, slot: Slot) -> None:
        """Make `n` the number of rows, after a check that so many could be there."""
        path = place.path_of(slot.field)
        size = slot.row.minimal_size if slot.row else 1 if slot.is_compact else 2
        if slot.is_compact:
            self.rest("uvarint_rest", path)
        self.module.use("crowded")
        impossible = "" if slot.is_nullable and slot.is_compact else "n < 0 or "
        rows = "n" if size == 1 else f"n * {size}"
        self.refuse(f"{impossible}{rows} > {self.end} - p", f'crowded(n, {size}, "{path}", p, {self.end})')

    def items(self, place: Place, slot: Slot) -> None:
        if slot.row is None:
            self.texts(place, slot)
        elif slot.row.has_fixed_size and not slot.row.is_flexible:
            self.fixed_rows(place, slot)
        elif slot.row.has_fixed_size:
            # Tagged fields are rare: a look at every tag byte tells whether the rows have one size.
            size = slot.row.minimal_size
            with self.code.block(f"if n > 1 and buffer[p + {size - 1} : p + n * {size} : {size}].count(0) == n:"):
                self.fixed_rows(place, slot)
            with self.code.block("else:"):
                self.rows(place, slot)
        else:
            self.rows(place, slot)

    def texts(self, place: Place, slot: Slot) -> None:
        path, local = place.path_of(slot.field), place.local(slot.field)
        name, end = slot.field.name, self.end
        size = 1 if slot.is_compact else 2
        self.has_text = True
        self.module.use("cut")
        with self.code.block("for _ in range(n):"):
            lacking = f"p >= {end}" if size == 1 else f"{end} - p < {size}"
            self.refuse(lacking, f'cut("{place.path}", "{name}:{size}", p, {end})')
            if slot.is_compact:
                self.code("n = buffer[p]", "p += 1")
                self.rest("text_rest", path)
            else:
                self.code(f"(n,) = {self.module.read('h')}(buffer, p)", "p += 2")
            self.code("q = p + n")
            self.refuse(f"n < 0 or q > {end}", f'cut("{place.path}", "{name}:n", p, {end}, n)')
            self.code(
                f'at = "{path}"',
                f"{local}.append(buffer[p:q].decode())",
                "p = q",
            )

    def rows(self, place: Place, slot: Slot) -> None:
        inside = place.inside(slot)
        with self.code.block("for _ in range(n):"):
            self.plan(inside)
            self.build(inside, f"{place.local(slot.field)}.append(", ")")

    def fixed_rows(self, place: Place, slot: Slot) -> None:
        """Rows of one size, none with tagged fields: one call of C code walks them all."""
        inside = place.inside(slot)
        layout = inside.layout
        codes = "".join(CODES[each.field.type][0] for each in layout.slots) + ("x" if layout.is_flexible else "")
        target = [inside.local(each.field) for each in layout.slots]
        values = self.fixed_values(inside)
        self.module.use("new")
        self.code(f"q = p + n * {layout.minimal_size}")
        names = ", ".join(target) if len(target) > 1 else tuple_of(target)
        with self.code.block(f"for {names} in {self.module.rows(codes)}(view[p:q]):"):
            self.code.call(f"{place.local(slot.field)}.append(new({layout.struct.name}, (", values, ")))")
        self.code("p = q")

    def fixed_values(self, inside: Place) -> list[str]:
        layout = inside.layout
        present = {slot.field for slot in layout.slots}
        values = [
            inside.local(field) if field in present else self.module.default(field) for field in layout.struct.fields
        ]
        if layout.has_unknown_tags:
            values.append("()")
        return [f"{values[0]},"] if len(values) == 1 else values

    def nullable_struct(self, place: Place, slot: Slot) -> None:
        inside, local = place.inside(slot), place.local(slot.field)
        self.declare(local, f"{inside.layout.struct.name} | None", "None")
        with self.code.block("if n >= 0:"):
            self.plan(inside)
            self.build(inside, f"{local} = ")

    # --- tagged fields

    def tags(self, place: Place) -> None:
        """The tagged fields of a struct: usually none, and then their defaults."""
        self.has_tags = True
        if not place.layout.tagged:
            self.module.use("read_tags")
            self.code("tags = ()")
            with self.code.block("if t:"):
                self.code(f'tags, p = read_tags(buffer, p, {self.end}, t, "{place.path or place.layout.struct.name}")')
            return
        function = emit_tag_reader(self.module, place)
        names = [place.local(slot.field) for slot in place.layout.tagged]
        defaults = [self.module.default(slot.field) for slot in place.layout.tagged]
        with self.code.block("if t:"):
            self.code(f"{', '.join(names)}, tags, p = {function}(buffer, view, p, {self.end}, t)")
        with self.code.block("else:"):
            self.code.targets("", [*names, "tags"], f" = {', '.join([*defaults, '()'])}")


def emit_tag_reader(module: Module, place: Place) -> str:
    """A function that reads the tagged fields of one struct; they are rare, so the straight line stays free of them."""
    key = ("read", place.layout, place.path)
    if key in module.tag_functions:
        return module.tag_functions[key]
    layout = place.layout
    count = sum(1 for verb, other, _ in module.tag_functions if verb == "read" and other.struct == layout.struct)
    name = f"_read_{snake_case(layout.struct.name)}_tags" + (f"_{count + 1}" if count else "")
    module.tag_functions[key] = name
    module.use("read_tag", "uvarint_rest", "not_at_end")
    module.use_type("Buffer", "UnknownTags")
    module.imports.setdefault("typing", set()).add("Any")

    path = place.path or layout.struct.name
    function = _Function(module, "stop")
    code = function.code
    inside = Place(layout, place.path, Names())
    for slot in layout.tagged:
        function.declare(inside.local(slot.field), "Any", module.default(slot.field))
    code(
        "unknown: list[tuple[int, bytes]] = []", "if t > 127:", f'    t, p = uvarint_rest(buffer, p, end, t, "{path}")'
    )
    code("tag = -1")
    with code.block("for _ in range(t):"):
        code(f'tag, p, stop = read_tag(buffer, p, end, tag, "{path}")')
        for index, slot in enumerate(layout.tagged):
            with code.block(f"{'elif' if index else 'if'} tag == {slot.field.tag}:"):
                _read_tagged(function, inside, slot)
        with code.block("else:"):
            code("unknown.append((tag, bytes(view[p:stop])))", "p = stop")
        code("if p != stop:", f'    raise not_at_end(f"{path}.tag {{tag}}", p, stop)')
    results = [*(inside.local(slot.field) for slot in layout.tagged), "tuple(unknown)", "p"]
    code(f"return {', '.join(results)}")
    function.finish(
        f"def {name}(buffer: Buffer, view: memoryview, p: int, end: int, t: int) -> tuple[Any, ...]:",
        f'"""The tagged fields of {layout.struct.name}, its unknown ones, and the position behind them."""',
    )
    return name


def _read_tagged(function: _Function, inside: Place, slot: Slot) -> None:
    """One tagged field, as if it were the only field of a struct without tags of its own."""
    layout = inside.layout
    alone = Place(Layout(layout.struct, (slot,), (), (), is_flexible=False), inside.path, inside.names)
    function.plan(alone)
