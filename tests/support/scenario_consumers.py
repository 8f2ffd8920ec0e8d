"""The verbs of stories about consumer groups (KIP-848); those of scenario_groups.py are there, too.

Whoever acts knows what a client would: its epoch, and the partitions that it was told to have. Member ids are names.

    A steps-in g on=t,u             the first ConsumerGroupHeartbeat. Options: like (a pattern), as (an instance id),
                                    by (an assignor), rack, rebalance, v, id
    A beats g                       a heartbeat that says nothing new. Options: on, like, by, has (what it owns), epoch,
                                    id, as
    A obeys g                       a heartbeat that owns exactly what it was told to have
    A tells-all g                   the same, with its subscription, as after a lost answer. Options: on, like, epoch
    A steps-out g                   it leaves; `for-now` if it is static and comes back. Options: as, id
    look-at g                       ConsumerGroupDescribe
    group-config g name=value
"""

from collections.abc import Iterable

from headrace.cluster.image import ConfigKind, ConfigResource
from headrace.coordinator.consumer_member import JOINING, LEAVING, LEAVING_FOR_NOW
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.support.consumer_protocol import by_topic, place_of
from tests.support.group_driver import client_of
from tests.support.scenario import Verb, Words
from tests.support.scenario_groups import GroupStage, Membership
from tests.support.scenario_texts import answer_text


def _step_in(stage: GroupStage, actor: str, words: Words) -> list[str]:
    (group_id,) = words.things
    membership = stage.membership(actor, group_id)
    membership.member_id = words.text("id") if "id" in words.options else actor  # type: ignore[assignment]
    membership.instance_id = words.text("as")
    membership.topics = words.names("on", "") if "on" in words.options or "like" not in words.options else None
    membership.owned = ()
    request = ConsumerGroupHeartbeatRequest(
        group_id,
        membership.member_id,
        words.number("epoch", JOINING),
        membership.instance_id,
        words.text("rack"),
        words.ms("rebalance", 60_000),
        membership.topics,
        words.text("like"),
        words.text("by"),
        [],
    )
    return _send(stage, actor, request, words)


def _beat(stage: GroupStage, actor: str, words: Words) -> list[str]:
    (group_id,) = words.things
    membership = stage.membership(actor, group_id)
    owned = _owned(stage, map(place_of, words.names("has", ""))) if "has" in words.options else None
    return _send(stage, actor, _later(stage, membership, group_id, words, owned), words)


def _obey(stage: GroupStage, actor: str, words: Words) -> list[str]:
    (group_id,) = words.things
    membership = stage.membership(actor, group_id)
    return _send(stage, actor, _later(stage, membership, group_id, words, membership.owned), words)


def _tell_all(stage: GroupStage, actor: str, words: Words) -> list[str]:
    (group_id,) = words.things
    membership = stage.membership(actor, group_id)
    request = _later(stage, membership, group_id, words, membership.owned)
    return _send(
        stage,
        actor,
        request._replace(
            rebalance_timeout_ms=words.ms("rebalance", 60_000),
            subscribed_topic_names=request.subscribed_topic_names or membership.topics,
        ),
        words,
    )


def _later(
    stage: GroupStage,
    membership: Membership,
    group_id: str,
    words: Words,
    owned: Iterable[TopicPartitions] | None,
) -> ConsumerGroupHeartbeatRequest:
    if "on" in words.options:
        membership.topics = words.names("on", "")
    return ConsumerGroupHeartbeatRequest(
        group_id,
        words.text("id") or membership.member_id,
        words.number("epoch", membership.generation),
        words.text("as") if "as" in words.options else membership.instance_id,
        subscribed_topic_names=membership.topics if "on" in words.options else None,
        subscribed_topic_regex=words.text("like"),
        server_assignor=words.text("by"),
        topic_partitions=None if owned is None else tuple(owned),
    )


def _step_out(stage: GroupStage, actor: str, words: Words) -> list[str]:
    epoch = LEAVING_FOR_NOW if words.flag("for-now") else LEAVING
    (group_id,) = words.things
    membership = stage.membership(actor, group_id)
    request = ConsumerGroupHeartbeatRequest(
        group_id,
        words.text("id") or membership.member_id or actor,
        words.number("epoch", epoch),
        words.text("as") if "as" in words.options else membership.instance_id,
    )
    return _send(stage, actor, request, words)


def _send(stage: GroupStage, actor: str, request: ConsumerGroupHeartbeatRequest, words: Words) -> list[str]:
    client, version = client_of(actor), words.number("v", 1)
    return stage.send(
        actor,
        request.group_id,
        lambda shard, ticket: shard.consumer_group_heartbeat(
            request, ticket=ticket, client=client, version=version, now_ms=stage.driver.now_ms
        ),
    )


def _owned(stage: GroupStage, places: Iterable[tuple[str, int]]) -> list[TopicPartitions]:
    ids = stage.driver.image.topic_ids
    return [TopicPartitions(ids[topic], indexes) for topic, indexes in by_topic(places).items()]


def _look_at(stage: GroupStage, _: str, words: Words) -> list[str]:
    described = stage.driver.shard.describe_consumer_group(words.things[0])
    return [f"-> {line}" for line in answer_text(described).split("; ")]


def _group_config(stage: GroupStage, _: str, words: Words) -> list[str]:
    group_id, *settings = words.things
    image = stage.driver.image
    resource = ConfigResource(ConfigKind.GROUP, group_id)
    values = dict(setting.split("=", 1) for setting in settings)
    stage.driver.set_image(image._replace(configs={**image.configs, resource: values}))
    return stage.news()


CONSUMER_VERBS: dict[str, Verb] = {
    "steps-in": _step_in,
    "beats": _beat,
    "obeys": _obey,
    "tells-all": _tell_all,
    "steps-out": _step_out,
    "look-at": _look_at,
    "group-config": _group_config,
}
