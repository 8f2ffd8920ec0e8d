import pytest
from pyspark.errors import PySparkException

from headrace.streams.compiler.failures import short, told_shortly
from headrace.streams.errors import QueryFailedError

PAGE = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted
\tat org.apache.spark.scheduler.DAGScheduler(DAGScheduler.scala:1)
org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] the record at offset 2 cannot be decoded
=== Streaming Query ===
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (PAGE, "the record at offset 2 cannot be decoded"),
        ('  File "x.py"\n  RuntimeError: big: f() raised\n', "RuntimeError: big: f() raised"),
        ("a\nheadrace.client.errors.FencedError: stop\n", "headrace.client.errors.FencedError: stop"),
        ("one\n\ntwo\nthree\nfour\n", "one\n  two\n  three"),
    ],
)
def test_of_a_page_the_sentence_that_counts(text: str, sentence: str) -> None:
    assert short(text) == sentence


def test_a_sentence_has_an_end() -> None:
    assert len(short("RuntimeError: " + "x" * 10_000)) == 2_000


def test_what_spark_raises_becomes_an_error_of_ours() -> None:
    with pytest.raises(QueryFailedError, match=r"^the record at offset 2 cannot be decoded$"), told_shortly():
        raise PySparkException(PAGE)
