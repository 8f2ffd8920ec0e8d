"""A plan as JSON and back, so that a checkpoint can keep the plan that it was made by.

Nodes stand in a list, each after its inputs, which it names. Everything else is a tree of plain values and of objects
with their class under "$"; a class or field that this version does not know is an error, since a plan read wrongly
would be compared wrongly. Functions are known by name only.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from headrace.streams import aggregates, expressions, functions, plan, schema, serdes, shapes, states, windows
from headrace.streams.errors import PlanError
from headrace.streams.plan import Node, Plan, Sink

FORMAT: Final = 1  # raised when older versions could not read what is written

# Every dataclass of these modules can be part of a plan.
_MODULES: Final = (aggregates, expressions, functions, plan, serdes, shapes, states, windows)
_CLASSES: Final[Mapping[str, type[Any]]] = {"Field": schema.Field} | {
    name: found
    for module in _MODULES
    for name, found in vars(module).items()
    if isinstance(found, type) and is_dataclass(found) and found.__module__ == module.__name__
}

_MICROSECOND: Final = timedelta(microseconds=1)


class _Value(NamedTuple):
    """Values of literals that JSON has no form for."""

    cls: type[Any]
    to_text: Callable[[Any], str]
    from_text: Callable[[str], Any]


_VALUES: Final = {
    "bytes": _Value(bytes, bytes.hex, bytes.fromhex),
    "datetime": _Value(datetime, datetime.isoformat, datetime.fromisoformat),  # before date, of which it is a kind
    "date": _Value(date, date.isoformat, date.fromisoformat),
    "Decimal": _Value(Decimal, str, Decimal),
    "timedelta": _Value(timedelta, lambda it: str(it // _MICROSECOND), lambda text: int(text) * _MICROSECOND),
}


def plan_to_json(given: Plan) -> str:
    nodes = [_node_to_json(node) for node in given.nodes()]
    sinks = [sink.name for sink in given.sinks]
    whole = {"format": FORMAT, "app": given.app, "partitions": given.partitions, "dead_letters": given.dead_letters}
    whole |= {"late": given.late, "sinks": sinks, "nodes": nodes}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def plan_from_json(text: str) -> Plan:
    """Raises PlanError for what this version did not write, or could not have."""
    try:
        whole = json.loads(text)
        if whole["format"] != FORMAT:
            raise PlanError(
                f"this plan has format {whole['format']}, and this version of Headrace reads format {FORMAT}"
            )
        made: dict[str, Node] = {}
        for written in whole["nodes"]:
            node = _node_from_json(written, made)
            made[node.name] = node
        sinks = tuple(made[name] for name in whole["sinks"])
        if not all(isinstance(sink, Sink) for sink in sinks):
            raise PlanError("this is not a plan: not all of its sinks are sinks")
        late = whole.get("late", "drop")  # plans of earlier versions do not say
        return Plan(whole["app"], sinks, whole["partitions"], whole["dead_letters"], late)  # type: ignore[arg-type]  # just checked
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError) as error:
        if isinstance(error, PlanError):
            raise
        raise PlanError(f"this is not a plan that Headrace has written: {type(error).__name__}: {error}") from error


def _node_to_json(node: Node) -> dict[str, Any]:
    written = _object(node, leaving_out="inputs")
    written["inputs"] = [below.name for below in node.inputs]
    return written


def _node_from_json(written: Mapping[str, Any], made: Mapping[str, Node]) -> Node:
    given = dict(written)
    inputs = tuple(made[name] for name in given.pop("inputs"))
    cls = _CLASSES[given.pop("$")]
    if not issubclass(cls, Node):
        raise PlanError(f"this is not a plan: {cls.__name__} is not an operator")
    return cls(inputs=inputs, **{name: _from_json(value) for name, value in given.items()})


def _to_json(value: object) -> Any:
    if isinstance(value, schema.Field):  # a tuple, too, so it comes first
        return {"$": "Field", "name": value.name, "type": value.type}
    if is_dataclass(value):
        return _object(value)
    if isinstance(value, tuple):
        return [_to_json(part) for part in value]
    for name, form in _VALUES.items():
        if isinstance(value, form.cls):
            return {"$": name, "value": form.to_text(value)}
    assert value is None or isinstance(value, bool | int | float | str), value
    return value


def _object(value: Any, *, leaving_out: str = "") -> dict[str, Any]:
    assert type(value).__name__ in _CLASSES, type(value)
    # What is not compared (a function itself) is not part of the plan as data.
    kept = [field.name for field in fields(value) if field.compare and field.name != leaving_out]
    return {"$": type(value).__name__} | {name: _to_json(getattr(value, name)) for name in kept}


def _from_json(written: Any) -> Any:
    if isinstance(written, list):
        return tuple(_from_json(part) for part in written)
    if not isinstance(written, dict):
        return written
    given = dict(written)
    name = given.pop("$")
    if name in _VALUES:
        return _VALUES[name].from_text(given["value"])
    cls = _CLASSES[name]
    if cls is shapes.Shape:
        given["kind"] = shapes.Kind(given["kind"])
    return cls(**{field: _from_json(value) for field, value in given.items()})
