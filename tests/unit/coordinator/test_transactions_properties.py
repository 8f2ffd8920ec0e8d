"""Any interleaving of producers, time, markers and restarts."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.coordinator.result import Marking, Producer
from headrace.protocol.error_codes import ErrorCode
from tests.support.transaction_driver import TIMEOUT_MS, V1, V2, TransactionDriver

IDS = st.sampled_from(["t", "u"])
PARTITIONS = st.sets(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2)), min_size=1, max_size=3)


class Producers(RuleBasedStateMachine):
    """Several producers come and go with two transactional ids; some are zombies, and all retry at will."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = TransactionDriver()
        self.identities: dict[str, list[Producer]] = {"t": [], "u": []}  # every identity that was ever given out
        self.ends: dict[Producer, Marking] = {}
        self.epochs: dict[int, int] = {}

    def identity(self, name: str, place: int) -> Producer:
        known = self.identities[name]
        return known[place % len(known)] if known else Producer(4711, 0)

    @rule(name=IDS)
    def begin(self, name: str) -> None:
        response = self.driver.init(name)
        if response.error_code == 0:
            self.identities[name].append(Producer(response.producer_id, response.producer_epoch))

    @rule(name=IDS, place=st.integers(0, 9))
    def recover(self, name: str, place: int) -> None:
        response = self.driver.init(name, self.identity(name, place))
        if response.error_code == 0:
            self.identities[name].append(Producer(response.producer_id, response.producer_epoch))

    @rule(name=IDS, place=st.integers(-3, 9), partitions=PARTITIONS, version=st.sampled_from([0, 2]))
    def add(self, name: str, place: int, partitions: set[tuple[str, int]], version: int) -> None:
        producer = self.identity(name, place)
        code = self.driver.add(producer, *partitions, transactional_id=name, client_version=version)
        current = self.driver.shard.transactions.get(name)
        if code is ErrorCode.NONE:
            assert current is not None
            assert (current.producer_id, current.epoch) == producer, "a fenced producer added partitions"
            assert partitions <= current.partitions

    @rule(name=IDS, place=st.integers(-3, 9), commit=st.booleans(), version=st.sampled_from([V1, V2]))
    def end(self, name: str, place: int, commit: bool, version: int) -> None:
        response = self.driver.end(self.identity(name, place), commit=commit, version=version, transactional_id=name)
        if response.error_code == 0 and version == V2:
            self.identities[name].append(Producer(response.producer_id, response.producer_epoch))

    @rule()
    def write_markers(self) -> None:
        self.driver.write_markers()

    @rule(delay_ms=st.sampled_from([1, TIMEOUT_MS // 2, TIMEOUT_MS]))
    def wait(self, delay_ms: int) -> None:
        self.driver.move(delay_ms)

    @rule()
    def restart(self) -> None:
        self.driver.restart()

    @invariant()
    def a_transaction_ends_in_one_way(self) -> None:
        for marking in self.driver.ordered:
            if marking.transaction_version == 2:  # each has its own epoch
                assert self.ends.setdefault(marking.producer, marking) == marking

    @invariant()
    def epochs_never_go_back(self) -> None:
        for transaction in self.driver.shard.transactions.values():
            assert transaction.epoch >= self.epochs.get(transaction.producer_id, -1)
            self.epochs[transaction.producer_id] = transaction.epoch


Producers.TestCase.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestProducers = Producers.TestCase
