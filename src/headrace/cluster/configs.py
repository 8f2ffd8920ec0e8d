"""All config tables, and what to do with a set of overrides: check them, and say what is wrong in words people can use.

`topic`, `broker`, `group` and `client metrics` resources each have a table of their own. `config_resolution` says which
value counts where several places set one.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from headrace.cluster.broker_configs import BROKER_CONFIGS, without_listener
from headrace.cluster.client_metrics_configs import CLIENT_METRICS_CONFIGS
from headrace.cluster.config_types import ConfigKey, ConfigTable, ConfigType, InvalidConfigError, Scope, Value
from headrace.cluster.foreign_configs import REFUSED, WITHOUT_EFFECT
from headrace.cluster.group_configs import GROUP_CONFIGS, check_group_bounds
from headrace.cluster.topic_configs import TOPIC_CONFIGS
from headrace.cluster.unserved_configs import UNSERVED

__all__ = [
    "BROKER_CONFIGS",
    "CLIENT_METRICS_CONFIGS",
    "GROUP_CONFIGS",
    "TOPIC_CONFIGS",
    "ConfigKey",
    "ConfigTable",
    "ConfigType",
    "InvalidConfigError",
    "Scope",
    "StartCheck",
    "check_broker_change",
    "check_broker_file",
    "check_broker_rules",
    "check_group_bounds",
    "find_problems",
    "nearest",
    "parse_values",
    "unknown_config",
    "validate",
]

_LIKENESS: Final = 0.6  # below it a suggestion puzzles more than it helps


class StartCheck(NamedTuple):
    """What is wrong with a broker's file, which stops the start, and what is useless in it, which does not."""

    problems: list[InvalidConfigError]
    notices: list[str]


def nearest(name: str, table: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be."""
    import difflib  # only mistakes pay for it

    found = difflib.get_close_matches(name, table, n=1, cutoff=_LIKENESS)
    return found[0] if found else None


def unknown_config(name: str, table: ConfigTable) -> InvalidConfigError:
    """The error for a name that `table` does not have."""
    # The broker's name for a topic or group config is the most likely mistake of all.
    guess = next((key.name for key in table.values() if name in (each.name for each in key.synonyms)), None)
    guess = guess or nearest(name, (each for each, key in table.items() if not key.is_internal))
    hint = f"; did you mean {guess}?" if guess else ""
    article = "an" if table.resource[0] in "aeiou" else "a"
    return InvalidConfigError(name, f"is not {article} {table.resource} config{hint}")


def parse_values(table: ConfigTable, overrides: Mapping[str, str]) -> dict[str, Value]:
    """The values of these overrides. Raises InvalidConfigError for an unknown name or a wrong value."""
    values = {}
    for name, text in overrides.items():
        key = table.find(name)
        if key is None:
            raise unknown_config(name, table)
        values[name] = key.parse(text)
    return values


def find_problems(table: ConfigTable, overrides: Mapping[str, str]) -> list[InvalidConfigError]:
    """Everything that is wrong with these overrides; their rules are looked at once each value is right by itself."""
    problems = []
    values = table.defaults()
    for name, text in overrides.items():
        try:
            values |= parse_values(table, {name: text})
        except InvalidConfigError as fault:
            problems.append(fault)
    if not problems:
        for rule in table.rules:
            try:
                rule(values)
            except InvalidConfigError as fault:
                problems.append(fault)
    return problems


def validate(table: ConfigTable, overrides: Mapping[str, str]) -> None:
    """Raises InvalidConfigError for the first thing that is wrong."""
    if problems := find_problems(table, overrides):
        raise problems[0]


def check_broker_file(overrides: Mapping[str, str]) -> StartCheck:
    """The start-up check: configs from a file, the command line or a program, before the broker starts."""
    problems, notices, known = [], [], {}
    for name, text in overrides.items():
        plain, key = without_listener(name), BROKER_CONFIGS.find(name)
        if plain in WITHOUT_EFFECT:
            notices.append(f"{name} has no effect: {WITHOUT_EFFECT[plain]}")
        elif plain in REFUSED:
            default, reason = REFUSED[plain]
            if text.strip() != default:
                problems.append(InvalidConfigError(name, f"must be left out: {reason}"))
        elif key is not None and key.scope is Scope.DYNAMIC_ONLY:
            problems.append(InvalidConfigError(name, "can only be set while the broker runs, not in its file"))
        else:
            known[name] = text
            if plain in UNSERVED and key is not None and not _is_default(key, text):
                notices.append(f"{name} has no effect yet: {UNSERVED[plain]}")
    return StartCheck(problems + find_problems(BROKER_CONFIGS, known), notices)


def _is_default(key: ConfigKey, text: str) -> bool:
    try:
        return key.parse(text) == key.default
    except InvalidConfigError:
        return False  # which is told elsewhere


def check_broker_change(name: str, text: str | None, *, is_cluster_wide: bool) -> None:
    """May a running broker, or all of them, be given this value? Raises InvalidConfigError.

    None takes a value away, also one that another version or Kafka left behind and this one does not know.
    """
    plain, key = without_listener(name), BROKER_CONFIGS.find(name)
    if key is None and text is None:
        return
    if plain in WITHOUT_EFFECT:
        raise InvalidConfigError(name, f"would have no effect: {WITHOUT_EFFECT[plain]}")
    if plain in REFUSED:
        raise InvalidConfigError(name, f"cannot be set: {REFUSED[plain][1]}")
    if key is None:
        raise unknown_config(name, BROKER_CONFIGS)
    if key.is_read_only:
        raise InvalidConfigError(name, "cannot change while the broker runs; set it in the broker's file and restart")
    if is_cluster_wide and (key.scope is Scope.PER_BROKER or name not in BROKER_CONFIGS):
        raise InvalidConfigError(name, "can only be set for one broker at a time, not for the cluster")
    if text is not None:
        key.parse(text)


def check_broker_rules(before: Mapping[str, Value], after: Mapping[str, Value]) -> None:
    """Do the configs of a running broker fit together after a change? Raises InvalidConfigError for the first rule that
    the change breaks; one that is broken already must not stand in the way of other changes.
    """
    for rule in BROKER_CONFIGS.rules:
        fault = _fault(rule, after)
        if fault is not None and _fault(rule, before) is None:
            raise fault


def _fault(rule: Callable[[Mapping[str, Value]], None], values: Mapping[str, Value]) -> InvalidConfigError | None:
    try:
        rule(values)
    except InvalidConfigError as fault:
        return fault
    return None
