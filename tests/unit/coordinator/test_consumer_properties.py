"""Any interleaving of what members of a consumer group do, of time, topics and restarts (KIP-848).

The clients behave: they believe what they are told, give up before they take, lose answers, crash and come back. Then

    no two members work on the same partition at any time
    the invariants of consumer_group.py hold, and the log says all that the coordinator knows
    once nothing happens any more but heartbeats, the group is stable after a few, and every partition has an owner
"""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.coordinator.consumer_group import ConsumerGroup
from tests.support.consumer_clients import GROUP, ClassicConsumer, NewConsumer
from tests.support.consumer_invariants import check_consumer_groups
from tests.support.group_driver import GroupDriver

TOPICS = ["t", "u", "v"]
WISHES = st.one_of(st.just(["t"]), st.lists(st.sampled_from(TOPICS), unique=True))
MOST_CLIENTS = 5
# Of heartbeats, a second apart. Patterns are looked up every ten seconds at most; a classic group may first have to
# wait for a leader and for members that are dead, one session after the other, and for a rebalance.
ROUNDS = 60


class ConsumerMachine(RuleBasedStateMachine):
    """Consumers of the new protocol."""

    @initialize(interval_ms=st.sampled_from([0, 1_000]), assignor=st.sampled_from(["uniform,range", "range,uniform"]))
    def start(self, interval_ms: int, assignor: str) -> None:
        self.driver = GroupDriver(
            {
                "group.initial.rebalance.delay.ms": "0",
                "group.consumer.assignment.interval.ms": str(interval_ms),
                "group.consumer.assignors": assignor,
            }
        )
        self.driver.make_topic("t", 4)
        self.driver.make_topic("u", 2)
        self.topic_numbers = {"t": 0, "u": 0}  # which of all topics of a name is there
        self.clients: list[NewConsumer | ClassicConsumer] = []
        self.numbers = iter(range(1, 1_000))

    # Clients

    def living(self) -> list[NewConsumer | ClassicConsumer]:
        return [client for client in self.clients if not client.is_dead]

    @precondition(lambda self: len(self.living()) < MOST_CLIENTS)
    @rule(topics=WISHES, instance=st.sampled_from([None, None, "i1", "i2"]), obeys=st.booleans())
    def come(self, topics: list[str], instance: str | None, obeys: bool) -> None:
        client = NewConsumer(self.driver, f"n{next(self.numbers)}", topics, instance)
        self.clients.append(client)
        client.beat()
        if obeys:
            client.obey()

    @precondition(lambda self: self.living())
    @rule(data=st.data(), answer=st.sampled_from(["lost", "heard", "obeyed", "obeyed"]))
    def beat(self, data: st.DataObject, answer: str) -> None:
        client = data.draw(st.sampled_from(self.living()))
        client.beat(is_lost=answer == "lost")
        if answer == "obeyed":
            client.obey()

    @precondition(lambda self: self.living())
    @rule(data=st.data())
    def obey(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.living())).obey()

    @precondition(lambda self: self.living())
    @rule(data=st.data(), topics=WISHES, regex=st.sampled_from([None, "", "t|u", "[tuv]", "x.*"]))
    def change_mind(self, data: st.DataObject, topics: list[str], regex: str | None) -> None:
        client = data.draw(st.sampled_from(self.living()))
        client.topics = topics
        if isinstance(client, NewConsumer):
            client.regex, client.has_news = regex, True
        client.beat()

    @precondition(lambda self: self.living())
    @rule(data=st.data(), for_now=st.booleans())
    def leave(self, data: st.DataObject, for_now: bool) -> None:
        data.draw(st.sampled_from(self.living())).leave(for_now=for_now)

    @precondition(lambda self: self.living())
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """Nobody hears of it again; its work ends with it."""
        client = data.draw(st.sampled_from(self.living()))
        client.is_dead = True
        client.owned.clear()

    # The world

    @rule(name=st.sampled_from(TOPICS), partitions=st.integers(1, 3))
    def grow(self, name: str, partitions: int) -> None:
        """A topic comes into being, or gets more partitions."""
        topic = self.driver.image.topic(name)
        if topic is None:
            self.topic_numbers[name] = next(self.numbers)
        before = 0 if topic is None else len(topic.partitions)
        self.driver.make_topic(name, before + partitions, self.topic_numbers[name])

    @rule(name=st.sampled_from(TOPICS))
    def delete(self, name: str) -> None:
        if name in self.driver.image.topic_ids:
            self.driver.delete_topic(name)

    @rule(delay_ms=st.sampled_from([1, 500, 1_000, 9_000, 30_000]))
    def wait(self, delay_ms: int) -> None:
        self.driver.move(delay_ms)

    @rule()
    def restart(self) -> None:
        self.driver.restart()

    # What must hold

    @invariant()
    def the_invariants_hold(self) -> None:
        check_consumer_groups(self.driver)

    @invariant()
    def no_two_members_work_on_the_same_partition(self) -> None:
        """Whoever was removed has stopped by then: its session is over for itself, too."""
        for client in self.clients:
            if not client.is_member:
                client.owned.clear()
        work = Counter(place for client in self.clients for place in client.owned)
        assert all(count == 1 for count in work.values()), work

    def teardown(self) -> None:
        if hasattr(self, "driver"):
            self.let_it_converge()

    def let_it_converge(self) -> None:
        for _ in range(ROUNDS):
            self.driver.move(1_100)
            for client in self.living():
                client.beat()
                self.no_two_members_work_on_the_same_partition()
                client.obey()
                self.no_two_members_work_on_the_same_partition()
        check_consumer_groups(self.driver)
        group = self.driver.shard.groups.get(GROUP)
        if group is not None and set(group.members) == {client.member_id for client in self.living()}:
            assert group.state_name in ("Stable", "Empty")
            if isinstance(group, ConsumerGroup):
                self.check_coverage(group)

    def check_coverage(self, group: ConsumerGroup) -> None:
        wanted = {topic for member in group.members.values() for topic in group.subscriptions.topics_of(member)}
        image = self.driver.image
        places = {
            (topic_id, index)
            for name, topic_id in image.topic_ids.items()
            if name in wanted
            for index in image.topics[topic_id].partitions
        }
        assert {place for client in self.living() for place in client.owned} == places


class MigrationMachine(ConsumerMachine):
    """Consumers of both protocols: the group changes its kind with them."""

    @precondition(lambda self: len(self.living()) < MOST_CLIENTS)
    @rule(topics=WISHES)
    def come_with_the_classic_protocol(self, topics: list[str]) -> None:
        client = ClassicConsumer(self.driver, f"c{next(self.numbers)}", topics)
        self.clients.append(client)
        for _ in range(4):
            client.beat()

    @rule()
    def restart(self) -> None:
        for client in self.clients:
            if isinstance(client, ClassicConsumer) and client.waiting is not None:
                client.waiting, client.step = None, "join"
        self.driver.answers.clear()
        self.driver.restart()


SETTINGS = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestConsumerGroups = pytest.mark.slow(ConsumerMachine.TestCase)
TestConsumerGroups.settings = SETTINGS
TestMigration = pytest.mark.slow(MigrationMachine.TestCase)
TestMigration.settings = SETTINGS


# Histories that went wrong once


@pytest.fixture
def migration() -> Iterator[MigrationMachine]:
    machine = MigrationMachine()
    machine.start(interval_ms=0, assignor="uniform,range")
    yield machine
    machine.the_invariants_hold()
    machine.let_it_converge()


@pytest.mark.parametrize("topics", [["t"], ["t", "u"]])
def test_a_topic_that_was_made_anew_with_fewer_partitions_before_an_upgrade(
    migration: MigrationMachine, topics: list[str]
) -> None:
    migration.come_with_the_classic_protocol(topics=["t"])
    migration.delete(name="t")
    migration.grow(name="t", partitions=1)
    migration.come(instance=None, obeys=False, topics=topics)


def test_a_topic_that_went_before_an_upgrade_by_one_who_wants_nothing(migration: MigrationMachine) -> None:
    migration.come_with_the_classic_protocol(topics=["t"])
    migration.delete(name="t")
    migration.come(instance=None, obeys=False, topics=[])


def test_a_partition_that_was_added_before_an_upgrade_by_one_who_wants_nothing(migration: MigrationMachine) -> None:
    migration.come_with_the_classic_protocol(topics=["t"])
    migration.grow(name="t", partitions=1)
    migration.come(instance=None, obeys=False, topics=[])


@pytest.mark.parametrize("is_restarted", [False, True])
def test_there_and_back_before_a_classic_member_has_heard_of_it(
    migration: MigrationMachine, is_restarted: bool
) -> None:
    migration.come_with_the_classic_protocol(topics=["t"])
    migration.come(instance=None, obeys=False, topics=["t"])
    migration.clients[1].leave()
    if is_restarted:
        migration.restart()
    migration.come(instance=None, obeys=False, topics=[])
    migration.come_with_the_classic_protocol(topics=["t"])
    migration.no_two_members_work_on_the_same_partition()
