"""The names that programs use: all are there, and none is loaded before it is asked for."""

import subprocess
import sys

import headrace
import headrace.aio
from headrace.client import errors


def test_every_name_can_be_had() -> None:
    for package in (headrace, headrace.aio):
        for name in package.__all__:
            assert getattr(package, name) is not None, name


def test_every_error_is_public() -> None:
    kinds = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == errors.__name__
    }
    assert kinds <= set(headrace.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    for package in (headrace, headrace.aio):
        assert not hasattr(package, "Consummer")


def test_importing_loads_nothing_and_an_admin_client_loads_no_broker() -> None:
    code = (
        "import sys, headrace, headrace.aio\n"
        "print(sorted(name for name in sys.modules if name.startswith('headrace') or name == 'asyncio'))\n"
        "headrace.Admin('localhost:9092')\n"
        "heavy = ('headrace.server', 'headrace.log', 'headrace.coordinator', 'numpy', 'pyarrow', 'rich')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["['headrace', 'headrace.aio']", "[]"]


def test_a_producer_loads_only_what_it_needs() -> None:
    """A program that sends one record and ends waits for every module."""
    code = (
        "import sys, headrace\n"
        "headrace.Producer('localhost:9092')\n"
        "others = ('headrace.server', 'headrace.log', 'headrace.client.transactions', 'headrace.client.consumer',\n"
        "          'headrace.client.fetch', 'headrace.client.admin', 'numpy', 'pyarrow', 'json', 'lz4', 'zstandard')\n"
        "print([name for name in sys.modules if name.startswith(others)])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
