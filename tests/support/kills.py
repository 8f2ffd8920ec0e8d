"""How often and when a broker is killed.

HEADRACE_KILLS says how often, and HEADRACE_KILL_SEED when; a test that fails tells its seed.
"""

import os
import time
from random import Random
from typing import Final

from tests.support.broker_process import BrokerProcess

KILLS: Final = int(os.environ.get("HEADRACE_KILLS", "10"))
SEED: Final = os.environ.get("HEADRACE_KILL_SEED", "1")
# Everything that happens by itself happens often.
BUSY: Final = {
    "log.cleaner.backoff.ms": "20",
    "log.retention.check.interval.ms": "50",
    "log.flush.offset.checkpoint.interval.ms": "50",
    "log.flush.start.offset.checkpoint.interval.ms": "50",
    "metadata.log.max.record.bytes.between.snapshots": "500",
    "log.segment.delete.delay.ms": "100",
}


def stay_a_moment(seconds: float) -> None:
    """Any moment is as good as any other: nothing is waited for."""
    time.sleep(seconds)


def kill_while_starting(broker: BrokerProcess, random: Random) -> None:
    """A start takes 0.2 s and more: recovery, the metadata, the first commit; the kill comes somewhere in there."""
    broker.start(wait=False)
    stay_a_moment(random.random() * 0.5)
    broker.kill()
