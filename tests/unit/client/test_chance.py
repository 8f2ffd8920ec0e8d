"""Chance that the client keeps to itself."""

import random
import subprocess
import sys

from headrace.client.backoff import Backoff
from headrace.client.partitioners import choose

FORKS = """
import os
from headrace.client.chance import random

def child():
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, repr(random()).encode())
        os._exit(0)
    os.wait()
    return os.read(reading, 100)

print(len({child() for _ in range(3)}))
"""


def test_a_program_that_seeds_its_random_numbers_gets_them_whatever_the_client_draws() -> None:
    before = random.getstate()
    waits = {Backoff(100, 1_000).seconds(2) for _ in range(20)}
    chosen = {choose(range(1_000), None) for _ in range(20)}
    assert len(waits) > 1
    assert len(chosen) > 1
    assert random.getstate() == before


def test_children_of_a_process_draw_different_numbers() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "3"
