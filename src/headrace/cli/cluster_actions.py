"""What `headrace cluster` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from headrace.cli.connect import ask
from headrace.cli.output import Column, Complaint, TableWriter, confirm, print_json, show_number, show_time
from headrace.cli.values import parse_pairs

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin
    from headrace.client.admin_cluster import ApiRange, ClusterDescription, Feature, Quorum


def describe(*, as_json: bool, timeout: float, bootstrap: str) -> None:
    async def question(admin: AsyncAdmin) -> ClusterDescription:
        return await admin.describe_cluster(fenced=True, timeout=timeout)

    cluster = ask(bootstrap, question)
    if as_json:
        brokers = [asdict(broker) for broker in cluster.brokers]
        print_json({"cluster": cluster.id, "controller": cluster.controller_id, "brokers": brokers})
        return
    table = TableWriter()
    table.line(f"cluster {cluster.id}", style="bold cyan")
    table.start([Column("broker", right=True), Column("host"), Column("port", right=True), Column("rack"), Column("")])
    for broker in cluster.brokers:
        notes = ["fenced"] * broker.is_fenced + ["controller"] * (broker.id == cluster.controller_id)
        table.row([str(broker.id), broker.host, str(broker.port), broker.rack or "-", ", ".join(notes)])
    table.flush()


def show_quorum(*, as_json: bool, timeout: float, bootstrap: str) -> None:
    async def question(admin: AsyncAdmin) -> Quorum:
        return await admin.describe_quorum(timeout=timeout)

    quorum = ask(bootstrap, question)
    if as_json:
        print_json(asdict(quorum))
        return
    table = TableWriter()
    table.line(
        f"leader {quorum.leader_id}, epoch {quorum.leader_epoch}, high watermark {quorum.high_watermark}",
        style="bold cyan",
    )
    table.start(
        [
            Column("node", right=True),
            Column("is"),
            Column("log end", right=True),
            Column("lag", right=True),
            Column("caught up"),
            Column("reached at"),
            Column("directory"),
        ]
    )
    for role, replicas in (("voter", quorum.voters), ("observer", quorum.observers)):
        for replica in replicas:
            places = quorum.listeners.get(replica.id, {})
            reached = ", ".join(f"{name}://{host}:{port}" for name, (host, port) in places.items())
            table.row(
                [
                    str(replica.id),
                    "leader" if replica.id == quorum.leader_id and role == "voter" else role,
                    str(replica.log_end_offset),
                    str(replica.lag),
                    show_time(replica.last_caught_up_ms),
                    reached or "-",
                    replica.directory_id,
                ]
            )
    table.flush()


def show_features(*, as_json: bool, timeout: float, bootstrap: str) -> None:
    async def question(admin: AsyncAdmin) -> dict[str, Feature]:
        return await admin.describe_features(timeout=timeout)

    features = ask(bootstrap, question)
    if as_json:
        for feature in features.values():
            print_json(asdict(feature))
        return
    table = TableWriter()
    table.start([Column("feature"), Column("level", right=True), Column("possible")])
    for feature in features.values():
        table.row([feature.name, show_number(feature.level), f"{feature.lowest}-{feature.highest}"])
    table.flush()


def upgrade(
    *,
    levels: Sequence[str],
    downgrade: bool,
    unsafe: bool,
    dry_run: bool,
    as_json: bool,
    timeout: float,
    bootstrap: str,
) -> None:
    wanted = {}
    for name, text in parse_pairs(levels, option="upgrade", example="transaction.version=2").items():
        if not text.isascii() or not text.isdigit():
            raise Complaint(f"{name}={text}: a level is a number.", hint="`headrace cluster features` shows them.")
        wanted[name] = int(text)
    kind = "unsafe_downgrade" if unsafe else "safe_downgrade" if downgrade else "upgrade"

    async def question(admin: AsyncAdmin) -> None:
        await admin.update_features(wanted, kind=kind, validate_only=dry_run, timeout=timeout)

    ask(bootstrap, question)
    for name, level in wanted.items():
        if as_json:
            print_json({"name": name, "level": level, "changed": not dry_run})
        else:
            click.echo(f"{name} {'would be' if dry_run else 'is'} at level {level}.")


def show_api_versions(*, broker: int | None, as_json: bool, timeout: float, bootstrap: str) -> None:
    async def question(admin: AsyncAdmin) -> list[ApiRange]:
        return await admin.api_versions(broker, timeout=timeout)

    ranges = ask(bootstrap, question)
    if as_json:
        for each in ranges:
            print_json(asdict(each))
        return
    table = TableWriter()
    table.start([Column("key", right=True), Column("API"), Column("versions")])
    for each in ranges:
        table.row([str(each.key), each.name or "unknown", f"{each.lowest}-{each.highest}"])
    table.flush()


def unregister(*, broker: int, force: bool, yes: bool, as_json: bool, timeout: float, bootstrap: str) -> None:
    confirm(f"Forget broker {broker}?", yes=yes)

    async def question(admin: AsyncAdmin) -> None:
        if not force:
            cluster = await admin.describe_cluster(fenced=True, timeout=timeout)
            if any(each.id == broker and not each.is_fenced for each in cluster.brokers):
                # It would lead nothing any more, and would not know why until somebody starts it again.
                raise Complaint(f"Broker {broker} is alive.", hint="Stop it first; --force forgets it all the same.")
        await admin.unregister_broker(broker, timeout=timeout)

    ask(bootstrap, question)
    if as_json:
        print_json({"broker": broker, "unregistered": True})
    else:
        click.echo(f"Broker {broker} is forgotten.")
