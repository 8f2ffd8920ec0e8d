"""The admin client: everything that a broker's admin APIs offer.

    with headrace.Admin("localhost:9092") as admin:
        admin.create_topic("orders", partitions=6, configs={"retention.ms": 86_400_000})
        for topic in admin.list_topics():
            print(topic.name, topic.partitions)

`headrace.aio.Admin` has the same methods for asyncio. Each is one call, repeated where that helps until `timeout`
seconds (default.api.timeout.ms) are over. A call about several things raises PartialError if some of them failed.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from headrace.client import background
from headrace.client.admin_access import AccessCalls
from headrace.client.admin_changes import ConfigCalls
from headrace.client.admin_cluster import ClusterCalls
from headrace.client.admin_groups import GroupCalls
from headrace.client.admin_partitions import PartitionCalls
from headrace.client.admin_topics import TopicCalls
from headrace.client.admin_transactions import TransactionCalls

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class AsyncAdmin(TopicCalls, PartitionCalls, ConfigCalls, ClusterCalls, AccessCalls, GroupCalls, TransactionCalls):
    """The admin client for asyncio: `async with headrace.aio.Admin("localhost:9092") as admin: ...`."""


def _blocking(
    method: Callable[Concatenate[AsyncAdmin, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate["Admin", Arguments], Result]:
    """The same method, which waits for its result."""

    @wraps(method)
    def call(self: "Admin", /, *arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        return background.call(method(self._admin, *arguments, **keywords))

    return call


class Admin:
    """The admin client for plain programs; its methods wait. It may be used by several threads."""

    def __init__(
        self, bootstrap: str | Sequence[str] | None = None, *, config: Mapping[str, Any] | None = None, **configs: Any
    ) -> None:
        """`bootstrap` is host:port of some brokers; configs are Kafka's, by keyword or in a dict with dots.

        Nothing is sent yet. Raises ConfigError.
        """
        self._admin = AsyncAdmin(bootstrap, config=config, **configs)

    def close(self) -> None:
        """Close all connections."""
        background.call(self._admin.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    ping = _blocking(AsyncAdmin.ping)

    create_topic = _blocking(AsyncAdmin.create_topic)
    create_topics = _blocking(AsyncAdmin.create_topics)
    delete_topic = _blocking(AsyncAdmin.delete_topic)
    delete_topics = _blocking(AsyncAdmin.delete_topics)
    list_topics = _blocking(AsyncAdmin.list_topics)
    describe_topic = _blocking(AsyncAdmin.describe_topic)
    describe_topics = _blocking(AsyncAdmin.describe_topics)
    create_partitions = _blocking(AsyncAdmin.create_partitions)

    list_offsets = _blocking(AsyncAdmin.list_offsets)
    delete_records = _blocking(AsyncAdmin.delete_records)
    describe_producers = _blocking(AsyncAdmin.describe_producers)
    elect_leaders = _blocking(AsyncAdmin.elect_leaders)
    alter_reassignments = _blocking(AsyncAdmin.alter_reassignments)
    list_reassignments = _blocking(AsyncAdmin.list_reassignments)
    alter_replica_log_dirs = _blocking(AsyncAdmin.alter_replica_log_dirs)

    describe_configs = _blocking(AsyncAdmin.describe_configs)
    alter_configs = _blocking(AsyncAdmin.alter_configs)
    list_config_resources = _blocking(AsyncAdmin.list_config_resources)

    describe_cluster = _blocking(AsyncAdmin.describe_cluster)
    describe_features = _blocking(AsyncAdmin.describe_features)
    api_versions = _blocking(AsyncAdmin.api_versions)
    update_features = _blocking(AsyncAdmin.update_features)
    describe_quorum = _blocking(AsyncAdmin.describe_quorum)
    describe_log_dirs = _blocking(AsyncAdmin.describe_log_dirs)
    unregister_broker = _blocking(AsyncAdmin.unregister_broker)
    add_raft_voter = _blocking(AsyncAdmin.add_raft_voter)
    remove_raft_voter = _blocking(AsyncAdmin.remove_raft_voter)

    describe_acls = _blocking(AsyncAdmin.describe_acls)
    create_acls = _blocking(AsyncAdmin.create_acls)
    delete_acls = _blocking(AsyncAdmin.delete_acls)
    describe_scram_users = _blocking(AsyncAdmin.describe_scram_users)
    set_scram_user = _blocking(AsyncAdmin.set_scram_user)
    delete_scram_user = _blocking(AsyncAdmin.delete_scram_user)
    describe_quotas = _blocking(AsyncAdmin.describe_quotas)
    alter_quotas = _blocking(AsyncAdmin.alter_quotas)

    list_groups = _blocking(AsyncAdmin.list_groups)
    describe_group = _blocking(AsyncAdmin.describe_group)
    describe_groups = _blocking(AsyncAdmin.describe_groups)
    list_group_offsets = _blocking(AsyncAdmin.list_group_offsets)
    alter_group_offsets = _blocking(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = _blocking(AsyncAdmin.delete_group_offsets)
    delete_groups = _blocking(AsyncAdmin.delete_groups)
    remove_members = _blocking(AsyncAdmin.remove_members)

    list_transactions = _blocking(AsyncAdmin.list_transactions)
    describe_transactions = _blocking(AsyncAdmin.describe_transactions)
    fence_producers = _blocking(AsyncAdmin.fence_producers)
    abort_transaction = _blocking(AsyncAdmin.abort_transaction)
