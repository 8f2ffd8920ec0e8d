"""For tests of programs that use Kafka: faults to inject, a clock to move, and fixtures for pytest.

    clock = headrace.testing.MovableClock()
    with headrace.Broker(clock=clock) as broker:
        fault = broker.faults.answer("Produce", error="NOT_LEADER_OR_FOLLOWER", times=3)
        ...
        clock.advance(7 * 24 * 3600)

Installing Headrace gives pytest the fixtures `headrace_broker` and `headrace_topic`; see `pytest_plugin`. Importing
this loads nothing that the program does not use.
"""

from typing import TYPE_CHECKING

__all__ = ["Fault", "Faults", "MovableClock"]

if TYPE_CHECKING:
    from headrace.server.faults import Fault, Faults
    from headrace.server.shared_clock import SharedClock as MovableClock


def __getattr__(name: str) -> object:
    if name == "MovableClock":
        from headrace.server.shared_clock import SharedClock

        return SharedClock
    if name in __all__:
        from headrace.server import faults

        return getattr(faults, name)
    raise AttributeError(f"module 'headrace.testing' has no attribute {name!r}")
