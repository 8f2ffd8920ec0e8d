"""Decoders: one straight-line function per layout.

Safety: `p` never passes `end`. A fixed run is checked before it is read; the check of a variable part covers the run
that follows it (`q + 9 > end`), so that there is one comparison per variable part. A count is checked against the
smallest rows it could mean before anything is allocated. Errors name the field: cold code, called as `raise cut(...)`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from wiregen.code import Code, Module
from wiregen.decode_bodies import read_array, read_scalars, read_sized
from wiregen.layout import Layout, Slot, describe_versions
from wiregen.model import Field, Message, snake_case
from wiregen.plan import Names, Place, Segment, segments


def emit_decoder(module: Module, message: Message, layout: Layout, versions: tuple[int, ...]) -> str:
    """Add the decoder of one layout to the module; its name."""
    name = f"_decode_{message.table}_{versions[0]}"
    class_name = message.body.name
    place = Place(layout, "", Names())
    function = Reading(module, "end")
    function.plan(place)
    function.code.refuse("p != end", f'not_at_end("{class_name}", p, end)')
    module.use("not_at_end")
    function.build(place, "return ")
    module.use_type("Buffer")
    function.finish(
        f"def {name}(buffer: Buffer, view: memoryview, p: int, end: int) -> {class_name}:",
        f'"""{describe_versions(versions).capitalize()}."""',
    )
    return name


class Reading:
    """One function under construction. `end` names the local that nothing may be read beyond.

    Its lines use few names of their own: `p` is the position, `q` the end of what has a variable size, `n` the length
    or count that was read last, `t` the count of tagged fields, `tags` the unknown ones, `at` the field of a text.
    """

    def __init__(self, module: Module, end: str) -> None:
        self.module = module
        self.end = end
        self.code = Code(margin=8)
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
        self.segments(segments(place), place.path)

    def segments(self, planned: list[Segment], path: str, *, was_read: bool = False) -> None:
        """Read segment by segment; `was_read` if the first run has been read already."""
        for index, segment in enumerate(planned, 1):
            following = planned[index] if index < len(planned) else None
            if not was_read:
                self.run(segment, path)
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

    def build(
        self, place: Place, opening: str, closing: str = "", known: Mapping[Field, str] = MappingProxyType({})
    ) -> None:
        """Make the struct of its locals, of values that are known, and of defaults for fields it does not have here."""
        layout = place.layout
        present = {slot.field: place.local(slot.field) for slot in (*layout.slots, *layout.tagged)} | dict(known)
        values = [present.get(field) or self.module.default(field) for field in layout.struct.fields]
        if layout.struct.keeps_unknown_tags:
            values.append("tags" if layout.is_flexible else "()")
        if len(values) == 1:
            values = [f"{values[0]},"]
        self.module.use("new")
        self.code.call(f"{opening}new({layout.struct.name}, (", values, f")){closing}")

    # --- runs of fixed fields

    def run(self, segment: Segment, path: str) -> None:
        if not segment.size:
            return
        here, code = self.here, self.code
        if not self.is_checked:
            description = " ".join(segment.describe(path))
            self.module.use("cut")
            lacking = f"{here} >= {self.end}" if segment.size == 1 else f"{self.end} - {here} < {segment.size}"
            self.code.refuse(lacking, f'cut("{path}", "{description}", {here}, {self.end})')
        self.unpack(segment)
        code(f"p += {segment.size}" if here == "p" else f"p = {here} + {segment.size}")
        self.here = "p"
        self.is_checked = False

    def unpack(self, segment: Segment) -> None:
        """Read a run at the position, which stays where it is."""
        targets = [value.local for value in segment.values]
        if segment.head:
            targets.append("n" if segment.body else "t")
        if segment.codes == "B":
            self.code(f"{targets[0]} = buffer[{self.here}]")
        else:
            self.code.targets("", targets, f" = {self.module.read(segment.codes)}(buffer, {self.here})")

    def settle(self) -> None:
        """Bring the position back into `p` where control flow joins."""
        if self.here != "p":
            self.code(f"p = {self.here}")
            self.here = "p"
        self.is_checked = False

    def rest(self, function: str, path: str) -> None:
        """The rest of a varint longer than one byte."""
        self.module.use(function)
        self.code("if n > 127:", f'    n, p = {function}(buffer, p, {self.end}, n, "{path}")')

    # --- what has a variable size

    def body(self, place: Place, slot: Slot, following: Segment | None) -> bool:
        """Read the body that a head has announced. Whether the head of the following segment was read with it."""
        if slot.is_struct:
            self.nullable_struct(place, slot)
        elif slot.is_scalar_array:
            return read_scalars(self, place, slot, following)
        elif slot.field.is_array:
            read_array(self, place, slot)
        else:
            read_sized(self, place, slot, following)
        return False

    def nullable_struct(self, place: Place, slot: Slot) -> None:
        inside, local = place.inside(slot), place.local(slot.field)
        self.declare(local, f"{inside.layout.struct.name} | None", "None")
        if slot.head == "B":
            self.rest("uvarint_rest", place.path_of(slot.field))
        with self.code.block("if n:" if slot.head == "B" else "if n >= 0:"):
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
            self.code.targets("", [*names, "tags", "p"], f" = {function}(buffer, view, p, {self.end}, t)")
        with self.code.block("else:"):
            self.code(*(f"{name} = {default}" for name, default in zip(names, defaults, strict=True)), "tags = ()")


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
    module.import_from("typing", "Any")

    path = place.path or layout.struct.name
    function = Reading(module, "stop")
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
        code.refuse("p != stop", f'not_at_end(f"{path}.tag {{tag}}", p, stop)')
    results = [*(inside.local(slot.field) for slot in layout.tagged), "tuple(unknown)", "p"]
    code(f"return {', '.join(results)}")
    function.finish(
        f"def {name}(buffer: Buffer, view: memoryview, p: int, end: int, t: int) -> tuple[Any, ...]:",
        f'"""The tagged fields of {layout.struct.name}, its unknown ones, and the position behind them."""',
    )
    return name


def _read_tagged(function: Reading, inside: Place, slot: Slot) -> None:
    """One tagged field, as if it were the only field of a struct without tags of its own."""
    layout = inside.layout
    alone = Place(Layout(layout.struct, (slot,), (), (), is_flexible=False), inside.path, inside.names)
    function.plan(alone)
