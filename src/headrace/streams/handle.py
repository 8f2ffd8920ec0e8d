"""What all handles have in common: an app, a plan node, and how arguments of users become parts of the next node."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.streams.columns import Column, expression_of
from headrace.streams.errors import PlanError
from headrace.streams.expressions import ColumnRef, Expression
from headrace.streams.failing import MAX_ERROR_LENGTH, bounded
from headrace.streams.functions import function_of
from headrace.streams.plan import Condition, Map, Named, Node
from headrace.streams.schema import names, parse_schema
from headrace.streams.shapes import Shape, check_condition, check_expression, check_names, check_new_columns

if TYPE_CHECKING:
    from headrace.streams.app import App
    from headrace.streams.compiler.running import Session

On = str | Sequence[str] | Mapping[str, str] | None
Pairs = tuple[tuple[str, str], ...]
RowFunction = Callable[..., Any]  # a row is a dict; what comes back depends on the operator
N = TypeVar("N", bound=Node)


class Handle:
    """Immutable: every operation returns a new handle over a new node, and leaves this one as it was."""

    __slots__ = ("app", "node")

    def __init__(self, app: "App", node: Node) -> None:
        self.app = app
        self.node = node

    @property
    def name(self) -> str:
        """The operator's name, as `explain` shows it."""
        return self.node.name

    def to_df(self, spark: "Session | None" = None) -> Any:
        """Its rows as a streaming DataFrame, for all that plain Spark can do; hidden columns are there, too.

        `spark` is a session that is there already. A record that cannot be decoded fails the query. Raises PlanError
        for what Spark cannot do in one query.
        """
        from headrace.streams.compiler.leaving import to_df

        self.app.leave_by(self.node)
        return to_df(self.node, self.app.deployment(), spark)

    @property
    def columns(self) -> dict[str, str | None]:
        """Names and types; a type is None when only Spark can know it."""
        return {field.name: field.type for field in self.node.shape.columns}

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key; none means the key of each record as it came."""
        return self.node.shape.key

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {', '.join(self.columns)}>"

    def _make(self, operator: type[N], name: str | None, shape: Shape, *others: "Handle", **fields: Any) -> N:
        """A node over this one and `others`, named."""
        taken = self.app.names.take(operator.kind, name)
        inputs = (self.node, *(other.node for other in others))
        return self.app.note(operator(name=taken, inputs=inputs, shape=shape, **fields))

    def _map_values(self, values: Sequence[object], named: Mapping[str, object], schema: str, name: str | None) -> Map:
        """`map_values` with a function: the key's columns stay, and those of the schema come."""
        where, shape = "map_values", self.node.shape
        if len(values) != 1 or named:
            raise PlanError(f"{where} with a schema takes one function from a row to a row")
        added = parse_schema(schema)
        clash = set(names(added)) & set(shape.key)
        if clash:
            raise PlanError(f"{where}: {min(clash)!r} is the key, which map_values does not change: use map")
        key = tuple(field for field in shape.columns if field.name in shape.key)
        check_new_columns(names(key + added), where=where)
        function = function_of(values[0], where=where, may_be_vectorized=True)
        return self._make(Map, name, replace(shape, columns=key + added), function=function, values_only=True)

    def _same_app(self, other: "Handle", *, where: str) -> None:
        if other.app is not self.app:
            raise PlanError(
                f"{where}: the two sides belong to different apps, {self.app.name!r} and {other.app.name!r}"
            )


def condition_of(given: object, shape: Shape, *, where: str, may_be_vectorized: bool = True) -> Condition:
    """A column expression, or a Python function of a row, or of columns."""
    if isinstance(given, Column):
        made: Condition = given.expression
    else:
        made = function_of(given, where=where, may_be_vectorized=may_be_vectorized)
    check_condition(made, shape, where=where)
    return made


def check_of(condition: object, message: object, shape: Shape) -> tuple[Condition, str]:
    """What `check` takes; a message that was not given is made of the condition."""
    where = "check"
    made = condition_of(condition, shape, where=where)
    if message is None:
        return made, bounded(f"it is not true that {made}")
    if not isinstance(message, str) or not message or len(message) > MAX_ERROR_LENGTH:
        raise PlanError(f"{where}: the message is a text of 1 to {MAX_ERROR_LENGTH} characters, not {message!r}")
    return made, message


def named_columns(given: Sequence[object], named: Mapping[str, object], shape: Shape, *, where: str) -> Named:
    """What `select` and `group_by` take: names, columns that have a name, and `name=expression`."""
    made: list[tuple[str, Expression]] = []
    for one in given:
        if isinstance(one, str):
            made.append((one, ColumnRef(one)))
        elif not isinstance(one, Column):
            raise PlanError(f"{where} takes names and columns, and was given {one!r}")
        elif one.name is None:
            raise PlanError(f'{where}: {one.expression} needs a name: write it as name=..., or .alias("name")')
        else:
            made.append((one.name, one.expression))
    made.extend((name, expression_of(value)) for name, value in named.items())
    for _, expression in made:
        check_expression(expression, shape, where=where)
    check_new_columns((name for name, _ in made), where=where)
    return tuple(made)


def pairs_to_key(on: On, left: Shape, right: Shape, *, where: str) -> Pairs:
    """Columns of the left, each with the column of the right table's key that it must equal, in the key's order."""
    if isinstance(on, Mapping):
        check_names(on.keys(), left, where=where)
        if set(on.values()) != set(right.key) or len(on) != len(right.key):
            raise PlanError(f"{where}: on= must name each column of the table's key once: {', '.join(right.key)}")
        back = {theirs: ours for ours, theirs in on.items()}
        return tuple((back[theirs], theirs) for theirs in right.key)
    ours = _listed(on) if on is not None else left.key
    check_names(ours, left, where=where)
    if len(ours) != len(right.key):
        raise PlanError(
            f"{where}: the table's key is ({', '.join(right.key)}), and on= names {len(ours)} columns: "
            f"{', '.join(ours) or 'none'}"
        )
    return tuple(zip(ours, right.key, strict=True))


def pairs_of_streams(on: On, left: Shape, right: Shape, *, where: str) -> Pairs:
    """Columns of two streams that must be equal: those of `on`, or both keys."""
    if on is None:
        if not left.key or len(left.key) != len(right.key):
            raise PlanError(
                f"{where}: say by which columns, as on=; the keys are {left.key or 'none'} and {right.key or 'none'}"
            )
        pairs = tuple(zip(left.key, right.key, strict=True))
    elif isinstance(on, Mapping):
        pairs = tuple(on.items())
    else:
        pairs = tuple((name, name) for name in _listed(on))
    if not pairs:
        raise PlanError(f"{where}: on= names no column")
    check_names((ours for ours, _ in pairs), left, where=where)
    check_names((theirs for _, theirs in pairs), right, where=where)
    return pairs


def keep_key(columns: Named, shape: Shape, *, where: str) -> Named:
    """The key's columns stay through a select: those which it does not name come first."""
    for name, expression in columns:
        if name in shape.key and expression != ColumnRef(name):
            raise PlanError(f"{where}: {name!r} is the key, and select does not change it: use select_key")
    named = {name for name, _ in columns}
    return tuple((name, ColumnRef(name)) for name in shape.key if name not in named) + columns


def key_names(key: str | Sequence[str] | None, shape: Shape, *, where: str) -> tuple[str, ...]:
    given = () if key is None else _listed(key)
    check_names(given, shape, where=where)
    return given


def grouping_keys(given: Sequence[object], named: Mapping[str, object], shape: Shape) -> Named:
    """The columns to group by; without any, those of the key."""
    keys = named_columns(given or (() if named else shape.key), named, shape, where="group_by")
    if not keys:
        raise PlanError("group_by needs columns, since the stream has no key: group_by(...), or key= of app.stream")
    return keys


def _listed(on: str | Sequence[str]) -> tuple[str, ...]:
    return (on,) if isinstance(on, str) else tuple(on)
