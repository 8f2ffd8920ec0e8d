"""What `headrace config` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from headrace.cli.connect import ask
from headrace.cli.output import Column, Complaint, TableWriter, print_json
from headrace.cli.values import parse_pairs
from headrace.client.admin_changes import Append, ConfigResource, Subtract

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin
    from headrace.client.admin_access import QuotaEntry
    from headrace.client.admin_changes import ConfigEntry

QUOTA_TYPES: Final = {"user": "user", "client": "client-id", "ip": "ip"}
DEFAULT_NAME: Final = "default"  # of a user, client or ip
_NAMELESS: Final = "cluster"


def list_resources(*, as_json: bool, timeout: float, bootstrap: str) -> None:
    async def question(admin: AsyncAdmin) -> list[ConfigResource]:
        return await admin.list_config_resources(timeout=timeout)

    resources = ask(bootstrap, question)
    table = TableWriter()
    table.start([Column("kind"), Column("name")])
    for resource in resources:
        if as_json:
            print_json({"kind": resource.kind, "name": resource.name})
        else:
            table.row([resource.kind, resource.name])
    if not as_json:
        table.flush()


def describe(
    *,
    kind: str,
    name: str | None,
    everything: bool,
    keys: Sequence[str],
    docs: bool,
    as_json: bool,
    timeout: float,
    bootstrap: str,
) -> None:
    if kind in QUOTA_TYPES:
        _describe_quotas(kind, name, as_json=as_json, timeout=timeout, bootstrap=bootstrap)
        return
    resource = _resource(kind, name)

    async def question(admin: AsyncAdmin) -> dict[str, ConfigEntry]:
        found = await admin.describe_configs([resource], names=keys or None, documentation=docs, timeout=timeout)
        return found[resource]

    entries = [
        entry
        for entry in sorted(ask(bootstrap, question).values(), key=lambda entry: entry.name)
        if everything or keys or entry.source not in ("default", "file")
    ]
    if as_json:
        for entry in entries:
            print_json(
                {
                    "config": entry.name,
                    "value": entry.value,
                    "source": entry.source,
                    "type": entry.type,
                    "read_only": entry.is_read_only,
                    "sensitive": entry.is_sensitive,
                }
                | ({"documentation": entry.documentation} if docs else {})
            )
        return
    if not entries:
        click.echo(f"Nothing is set for {resource}; --all shows the defaults.", err=True)
        return
    table = TableWriter()
    columns = [Column("config"), Column("value"), Column("from"), Column("")]
    table.start([*columns, Column("for")] if docs else columns)
    for entry in entries:
        value = "(hidden)" if entry.is_sensitive else "-" if entry.value is None else entry.value
        cells = [entry.name, value, entry.source, "read-only" if entry.is_read_only else ""]
        table.row([*cells, entry.documentation or ""] if docs else cells)
    table.flush()


def set_configs(
    *,
    kind: str,
    name_and_pairs: Sequence[str],
    append: bool,
    subtract: bool,
    dry_run: bool,
    as_json: bool,
    timeout: float,
    bootstrap: str,
) -> None:
    if append and subtract:
        raise click.UsageError("--append and --subtract exclude one another.")
    name, rest = _take_name(kind, name_and_pairs, is_pair=True)
    pairs = parse_pairs(rest, option="set", example="retention.ms=60000")
    if not pairs:
        raise Complaint("Set what?", hint=f"Such as `headrace config set {kind} {name or ''} KEY=VALUE`.")
    if kind in QUOTA_TYPES:
        _alter_quotas(kind, name, _quota_values(pairs), dry_run=dry_run, timeout=timeout, bootstrap=bootstrap)
    else:
        changes: dict[str, object] = dict(pairs)
        if append or subtract:
            wrap = Append if append else Subtract
            changes = {key: wrap(value.split(",")) for key, value in pairs.items()}
        _alter(_resource(kind, name), changes, dry_run=dry_run, timeout=timeout, bootstrap=bootstrap)
    _tell_changes(kind, name, list(pairs), dry_run=dry_run, as_json=as_json)


def unset_configs(
    *, kind: str, name_and_keys: Sequence[str], dry_run: bool, as_json: bool, timeout: float, bootstrap: str
) -> None:
    name, keys = _take_name(kind, name_and_keys, is_pair=False)
    if not keys:
        raise Complaint("Take what away?", hint=f"Such as `headrace config unset {kind} {name or ''} KEY`.")
    if kind in QUOTA_TYPES:
        _alter_quotas(kind, name, dict.fromkeys(keys), dry_run=dry_run, timeout=timeout, bootstrap=bootstrap)
    else:
        _alter(_resource(kind, name), dict.fromkeys(keys), dry_run=dry_run, timeout=timeout, bootstrap=bootstrap)
    _tell_changes(kind, name, keys, dry_run=dry_run, as_json=as_json)


def _alter(
    resource: ConfigResource, changes: Mapping[str, object], *, dry_run: bool, timeout: float, bootstrap: str
) -> None:
    async def question(admin: AsyncAdmin) -> None:
        await admin.alter_configs({resource: changes}, validate_only=dry_run, timeout=timeout)

    ask(bootstrap, question)


def _tell_changes(kind: str, name: str | None, keys: Sequence[str], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({"kind": kind, "name": name, "configs": keys, "changed": not dry_run})
    else:
        whose = kind if name is None else f"{kind} {name}"
        click.echo(f"{'Would change' if dry_run else 'Changed'} {', '.join(keys)} of {whose}.")


# Quotas


def _describe_quotas(kind: str, name: str | None, *, as_json: bool, timeout: float, bootstrap: str) -> None:
    async def question(admin: AsyncAdmin) -> list[QuotaEntry]:
        if name is None:
            return await admin.describe_quotas(types=[QUOTA_TYPES[kind]], timeout=timeout)
        return await admin.describe_quotas(_entity(kind, name), timeout=timeout)

    entries = ask(bootstrap, question)
    if as_json:
        for entry in entries:
            print_json({"entity": entry.entity, "quotas": entry.values})
        return
    if not entries:
        click.echo(f"No quota is set for {kind}{f' {name}' if name else 's'}.", err=True)
        return
    table = TableWriter()
    table.start([Column("for"), Column("quota"), Column("value", right=True)])
    for entry in entries:
        entity = ", ".join(f"{part} {owner or DEFAULT_NAME}" for part, owner in entry.entity.items())
        for quota, value in sorted(entry.values.items()):
            table.row([entity, quota, f"{value:g}" if value != int(value) else str(int(value))])
    table.flush()


def _alter_quotas(
    kind: str, name: str | None, values: Mapping[str, float | None], *, dry_run: bool, timeout: float, bootstrap: str
) -> None:
    assert name is not None, kind

    async def question(admin: AsyncAdmin) -> None:
        await admin.alter_quotas(_entity(kind, name), values, validate_only=dry_run, timeout=timeout)

    ask(bootstrap, question)


def _entity(kind: str, name: str) -> dict[str, str | None]:
    return {QUOTA_TYPES[kind]: None if name == DEFAULT_NAME else name}


def _quota_values(pairs: Mapping[str, str]) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for key, text in pairs.items():
        try:
            values[key] = float(text)
        except ValueError:
            raise Complaint(f"{key}={text}: a quota is a number.", hint="Such as producer_byte_rate=1048576") from None
    return values


# Names


def _take_name(kind: str, words: Sequence[str], *, is_pair: bool) -> tuple[str | None, Sequence[str]]:
    """The name before the configs; the cluster has none."""
    if kind == _NAMELESS:
        return None, words
    if is_pair and "=" in words[0]:
        raise Complaint(
            f"Which {kind}? Its name comes before the configs.",
            hint=f"Such as `headrace config set {kind} NAME {words[0]}`.",
        )
    return words[0], words[1:]


def _resource(kind: str, name: str | None) -> ConfigResource:
    if kind == _NAMELESS:
        if name is not None:
            raise Complaint("The configs of the cluster are those of all brokers: it takes no name.")
        return ConfigResource("broker", "")
    if name is None:
        raise Complaint(f"Which {kind}?", hint=f"Such as `headrace config describe {kind} NAME`.")
    return ConfigResource(kind, name)
