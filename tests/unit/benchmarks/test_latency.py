"""The client that measures latency takes records that are due, and nothing else."""

from struct import pack, pack_into

import pytest

from benchmarks.beside_kafka.tail_sink import client_alone
from benchmarks.beside_kafka.tail_talk import TailTalk
from benchmarks.beside_kafka.workload import FETCH_VERSION, Workload, WrongAnswerError, batch_of, response_frame
from headrace.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

RECORDS = Workload(
    "produce", batch_bytes=200, connections=1, in_flight=1, topic="t", topic_id="00" * 16, seconds=0.05, timestamp_ms=1
)


def answer_with(*offsets: int, code: int = 0, row_code: int = 0) -> bytes:
    records = b"".join(pack(">q", offset) + batch_of(200, 1)[8:] for offset in offsets)
    row = PartitionData(0, row_code, 9, 9, 0, aborted_transactions=None, records=records)
    topics = [FetchableTopicResponse(topic_id=bytes(16), partitions=[row])]
    return response_frame("Fetch", FETCH_VERSION, FetchResponse(error_code=code, responses=topics))


def test_through_a_sink_every_record_arrives() -> None:
    latencies = client_alone(RECORDS)
    assert len(latencies) == 50
    assert min(latencies) > 0


def test_the_next_record_alone_is_what_is_expected() -> None:
    talk = TailTalk(RECORDS)
    assert [talk.take(talk.answer) for _ in range(3)] == [1, 1, 1]


def test_each_request_asks_for_what_is_due() -> None:
    talk = TailTalk(RECORDS)
    requests = []
    for _ in range(2):
        requests.append(bytes(talk.request))
        talk.take(talk.answer)
    changed = [at for at, (one, other) in enumerate(zip(*requests, strict=True)) if one != other]
    assert len(changed) == 1  # the last byte of the offset
    assert [request[changed[0]] for request in requests] == [0, 1]


def test_answers_of_another_shape_are_decoded() -> None:
    talk = TailTalk(RECORDS)
    assert talk.take(answer_with()) == 0  # time was up
    assert talk.take(answer_with(0, 1)) == 2
    assert talk.take(answer_with(2)) == 1


def test_a_record_that_is_not_due_does_not_count() -> None:
    with pytest.raises(WrongAnswerError, match=r"offsets \[1\], and 0 was due"):
        TailTalk(RECORDS).take(answer_with(1))


@pytest.mark.parametrize(("code", "row_code"), [(56, 0), (0, 3)])
def test_an_error_is_told(code: int, row_code: int) -> None:
    with pytest.raises(WrongAnswerError, match=str([code, row_code])[1:-1]):
        TailTalk(RECORDS).take(answer_with(0, code=code, row_code=row_code))


def test_every_byte_of_an_answer_is_compared() -> None:
    """One that differs in a number is decoded, and then seen for what it is."""
    talk = TailTalk(RECORDS)
    changed = bytearray(talk.answer)
    base_offset_at = changed.rindex(pack(">q", 0) + batch_of(200, 1)[8:12])
    pack_into(">q", changed, base_offset_at, 5)
    with pytest.raises(WrongAnswerError, match=r"offsets \[5\]"):
        talk.take(changed)


def test_half_an_answer_is_none() -> None:
    talk = TailTalk(RECORDS)
    with pytest.raises(WrongAnswerError):
        talk.take(talk.answer[:-20])
