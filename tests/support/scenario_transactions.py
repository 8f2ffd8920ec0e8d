"""The verbs of stories about transactions: requests, markers, time and restarts of a coordinator.

Whoever acts knows what a client would: its producer id and epoch for each transactional id, as the last answer that it
heard told them. They are written id/epoch.

    A inits x                       InitProducerId of a producer that starts. Options: timeout; `old`: from now on it
                                    speaks as clients before transaction version 2 do
    A recovers x                    InitProducerId that says who it is
    A has x                         it is introduced, of which nothing is told. Options as for `inits`; epoch: so many
                                    were used up before
    A adds x t-0 t-1                AddPartitionsToTxn of an old client; of a new one its first writes to them
    A adds-offsets x g              AddOffsetsToTxn; of a new client its TxnOffsetCommit
    A verifies x t-0                a broker asks whether what A writes there is part of its transaction
    A commits x / A aborts x        EndTxn
    marked x                        the markers that were ordered last are written, all of them
    marked x 100/0                  the same is told of those of this producer, whenever they were ordered
    restart / restart 10s           a new coordinator from the log, at once or later; its state must be the same
    clock 3s / describe x / list state=Ongoing,.. producer=100,.. longer=5s

Every request that might need a new producer id takes one along, so ids have gaps. Requests of a producer have the
options `id` and `epoch`, to say something else than it knows. With `unheard` the answer is lost on its way, and what it
told is not learned.
"""

from typing import NamedTuple

from headrace.coordinator.result import Producer, Step
from headrace.coordinator.transaction_state import EPOCH_BUMPED_SINCE, record_of
from headrace.protocol.messages.end_txn import EndTxnResponse
from headrace.protocol.messages.init_producer_id import InitProducerIdResponse
from headrace.protocol.messages.list_transactions import ListTransactionsRequest
from headrace.protocol.text_hash import spread
from tests.support.consumer_protocol import place_of
from tests.support.scenario import Verb, Words, pass_time, to_ms
from tests.support.scenario_texts import answer_text, record_text
from tests.support.scenario_transaction_texts import order_text
from tests.support.scenario_words import code_text
from tests.support.transaction_driver import TIMEOUT_MS, V1, V2, TransactionDriver

_NOBODY = Producer(-1, -1)
_OFFSETS, _OFFSETS_PARTITIONS = "__consumer_offsets", 50


class Speech(NamedTuple):
    """How a client speaks."""

    end_version: int = V2
    client_version: int = EPOCH_BUMPED_SINCE


OLD = Speech(V1, 0)


class TransactionStage:
    """A driver, and who acts on it."""

    def __init__(self) -> None:
        self.driver = TransactionDriver()
        self.identities: dict[tuple[str, str], Producer] = {}
        self.speeches: dict[str, Speech] = {}
        self._shown = 0  # steps of the driver that were told

    def speech(self, actor: str) -> Speech:
        return self.speeches.get(actor, Speech())

    def identity(self, actor: str, transactional_id: str, words: Words) -> Producer:
        known = self.identities.get((actor, transactional_id), _NOBODY)
        return Producer(words.number("id", known.producer_id), words.number("epoch", known.epoch))

    def learn(self, actor: str, transactional_id: str, response: InitProducerIdResponse | EndTxnResponse) -> None:
        if not response.error_code and response.producer_id != _NOBODY.producer_id:
            identity = Producer(response.producer_id, response.producer_epoch)
            self.identities[actor, transactional_id] = identity

    def news(self) -> list[str]:
        """What happened since the last time somebody asked."""
        steps = self.driver.steps[self._shown :]
        self._shown = len(self.driver.steps)
        return [line for step in steps for line in _tell(step)]


def _tell(step: Step) -> list[str]:
    lines = [f"log {notice}" for notice in step.notices]
    lines += [f"writes {record_text(record)}" for record in step.records]
    lines += [f"orders {order_text(marking)}" for marking in step.markings]
    return lines + [f"-> {answer_text(response)}" for _, response in step.answers]


# The world


def _clock(stage: TransactionStage, _: str, words: Words) -> list[str]:
    return pass_time(stage, to_ms(words.things[0]))


def _restart(stage: TransactionStage, _: str, words: Words) -> list[str]:
    stage.driver.now_ms += to_ms(words.things[0]) if words.things else 0  # nobody looks meanwhile
    stage.driver.restart()
    return stage.news()


def _marked(stage: TransactionStage, _: str, words: Words) -> list[str]:
    transactional_id, *identity = words.things
    if identity:
        producer = Producer(*map(int, identity[0].split("/")))
    else:
        (marking,) = (each for each in stage.driver.ordered if each.transactional_id == transactional_id)
        stage.driver.ordered.remove(marking)
        producer = marking.producer
    stage.driver.mark(transactional_id, producer)
    return stage.news()


def _has(stage: TransactionStage, actor: str, words: Words) -> list[str]:
    _init(stage, actor, words.without("epoch"))
    transactional_id = words.things[0]
    if "epoch" in words.options:
        used_up = stage.driver.transaction(transactional_id)._replace(epoch=words.number("epoch", 0))
        stage.driver.carry_out(Step((record_of(transactional_id, used_up),)))
        stage.identities[actor, transactional_id] = Producer(used_up.producer_id, used_up.epoch)
    stage.news()
    return []


# Requests of producers


def _init(stage: TransactionStage, actor: str, words: Words) -> list[str]:
    if words.flag("old"):
        stage.speeches[actor] = OLD
    return _introduce(stage, actor, words, Producer(words.number("id", -1), words.number("epoch", -1)))


def _recover(stage: TransactionStage, actor: str, words: Words) -> list[str]:
    return _introduce(stage, actor, words, stage.identity(actor, words.things[0], words))


def _introduce(stage: TransactionStage, actor: str, words: Words, producer: Producer) -> list[str]:
    is_heard = not words.flag("unheard")
    (transactional_id,) = words.things
    response = stage.driver.init(transactional_id, producer, timeout_ms=words.ms("timeout", TIMEOUT_MS))
    if is_heard:
        stage.learn(actor, transactional_id, response)
    return stage.news()


def _add(stage: TransactionStage, actor: str, words: Words) -> list[str]:
    _, *places = words.things
    return _add_all(stage, actor, words, *map(place_of, places))


def _add_offsets(stage: TransactionStage, actor: str, words: Words) -> list[str]:
    _, group_id = words.things
    return _add_all(stage, actor, words, (_OFFSETS, spread(group_id, _OFFSETS_PARTITIONS)))


def _add_all(stage: TransactionStage, actor: str, words: Words, *places: tuple[str, int]) -> list[str]:
    transactional_id = words.things[0]
    stage.driver.add(
        stage.identity(actor, transactional_id, words),
        *places,
        transactional_id=transactional_id,
        client_version=stage.speech(actor).client_version,
    )
    return stage.news()


def _verify(stage: TransactionStage, actor: str, words: Words) -> list[str]:
    transactional_id, *places = words.things
    producer = stage.identity(actor, transactional_id, words)
    verdicts = stage.driver.shard.verify_partitions(transactional_id, producer, frozenset(map(place_of, places)))
    return ["-> " + ", ".join(f"{place} {code_text(verdicts[place_of(place)])}" for place in places)]


def _commit(stage: TransactionStage, actor: str, words: Words) -> list[str]:
    return _end(stage, actor, words, commit=True)


def _abort(stage: TransactionStage, actor: str, words: Words) -> list[str]:
    return _end(stage, actor, words, commit=False)


def _end(stage: TransactionStage, actor: str, words: Words, *, commit: bool) -> list[str]:
    is_heard = not words.flag("unheard")
    (transactional_id,) = words.things
    response = stage.driver.end(
        stage.identity(actor, transactional_id, words),
        commit=commit,
        version=stage.speech(actor).end_version,
        transactional_id=transactional_id,
    )
    if is_heard:
        stage.learn(actor, transactional_id, response)
    return stage.news()


# Looking


def _describe(stage: TransactionStage, _: str, words: Words) -> list[str]:
    return [f"-> {answer_text(stage.driver.shard.describe(words.things[0]))}"]


def _list(stage: TransactionStage, _: str, words: Words) -> list[str]:
    request = ListTransactionsRequest(
        words.names("state", ""),
        [int(each) for each in words.names("producer", "")],
        words.ms("longer", -1),
    )
    rows = stage.driver.shard.list_transactions(request, stage.driver.now_ms)
    return [f"-> {row.transactional_id} of {row.producer_id} is {row.transaction_state}" for row in rows] or [
        "-> nothing"
    ]


TRANSACTION_VERBS: dict[str, Verb] = {
    "clock": _clock,
    "restart": _restart,
    "marked": _marked,
    "has": _has,
    "inits": _init,
    "recovers": _recover,
    "adds": _add,
    "adds-offsets": _add_offsets,
    "verifies": _verify,
    "commits": _commit,
    "aborts": _abort,
    "describe": _describe,
    "list": _list,
}
