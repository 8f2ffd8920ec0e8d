"""An error as the answer to any request of any version."""

from typing import Any

import pytest

from headrace.protocol.apis import API_BY_NAME, APIS, Api, load
from headrace.protocol.error_codes import ErrorCode
from headrace.server.error_answers import Depth, error_answer
from tests.support.message_values import other_than_default
from tests.support.messages import message_named

CODE = ErrorCode.KAFKA_STORAGE_ERROR
BROKER_APIS = [api for api in APIS.values() if "broker" in api.listeners]


def full_request(api: Api, version: int) -> Any:
    """As a handler gets it: all lists have one row, and no field of this version is at its default."""
    definition = message_named(f"{api.name}Request")
    data = definition.encode(version, definition.build(_values(definition.message.body, version)))
    return definition.decode(version, data)


def _values(struct: Any, version: int) -> dict[str, Any]:
    return {field.name: _value(field, version) for field in struct.fields if version in field.versions}


def _value(field: Any, version: int) -> Any:
    if field.struct is None:
        return other_than_default(field)
    inner = _values(field.struct, version)
    return [inner] if field.is_array else inner


def answer(name: str, version: int, depth: Depth = Depth.INNERMOST, request: Any = None) -> Any:
    api = API_BY_NAME[name]
    request = full_request(api, version) if request is None else request
    made = error_answer(api, version, request, CODE, message="why", depth=depth)
    if made is None:
        return None
    messages = load(api.key)
    data = b"".join(messages.encode_response[version](made))
    return messages.decode_response[version](data, memoryview(data), 0, len(data))


@pytest.mark.parametrize("depth", Depth)
@pytest.mark.parametrize("api", BROKER_APIS, ids=lambda api: api.name)
def test_every_version_of_every_api_can_carry_an_error(api: Api, depth: Depth) -> None:
    for version in range(api.min_version, api.max_version + 1):
        assert f"error_code={int(CODE)}" in str(answer(api.name, version, depth)), version


def test_rows_say_which_partition_they_are_about() -> None:
    topic = answer("Produce", 12).responses[0]
    assert (topic.name, topic.partition_responses[0].index) == ("seven", 77)
    assert topic.partition_responses[0][1:5] == (CODE, -1, -1, -1), "no offset, and no time of appending"
    assert topic.partition_responses[0].error_message == "why"
    topic = answer("Produce", 13).responses[0]
    assert (topic.name, topic.topic_id) == ("", b"\7" * 16)


@pytest.mark.parametrize(
    ("api", "version", "path", "names"),
    [
        ("Fetch", 12, "responses.partitions", {"partition_index": 77, "error_code": CODE, "records": b""}),
        ("Metadata", 12, "topics", {"name": "seven", "error_code": CODE}),
        ("DeleteTopics", 5, "responses", {"name": "seven", "error_code": CODE, "error_message": "why"}),
        ("DeleteTopics", 6, "responses", {"name": "seven", "topic_id": b"\7" * 16, "error_code": CODE}),
        ("DescribeConfigs", 4, "results", {"resource_type": 77, "resource_name": "seven", "error_code": CODE}),
        ("ElectLeaders", 2, "replica_election_results.partition_result", {"partition_id": 77, "error_code": CODE}),
        ("FindCoordinator", 4, "coordinators", {"key": "seven", "error_code": CODE}),
        ("DescribeGroups", 6, "groups", {"group_id": "seven", "error_code": CODE}),
        ("OffsetFetch", 7, "topics.partitions", {"partition_index": 77, "error_code": CODE}),
        ("OffsetFetch", 9, "groups", {"group_id": "seven", "error_code": 0}),
        ("OffsetFetch", 9, "groups.topics.partitions", {"partition_index": 77, "error_code": CODE}),
        ("AddPartitionsToTxn", 3, "results_by_topic_v3_and_below", {"name": "seven"}),
        ("AddPartitionsToTxn", 4, "results_by_transaction", {"transactional_id": "seven"}),
        ("AlterUserScramCredentials", 0, "results", {"user": "seven", "error_code": CODE}),
        ("LeaveGroup", 5, "members", {"member_id": "seven", "group_instance_id": "seven", "error_code": CODE}),
    ],
)
def test_rows_are_named_as_in_the_request(api: str, version: int, path: str, names: dict[str, Any]) -> None:
    row = answer(api, version)
    for field in path.split("."):
        row = getattr(row, field)[0]
    assert {name: getattr(row, name) for name in names} == names


def test_both_lists_of_a_request_are_answered() -> None:
    assert len(answer("AlterUserScramCredentials", 0).results) == 2, "one deletion, one upsertion"


def test_partitions_that_a_fetch_forgets_are_not_answered() -> None:
    assert len(answer("Fetch", 12).responses) == 1


def test_an_error_of_the_request_has_no_rows() -> None:
    response = answer("Fetch", 12, Depth.OUTERMOST)
    assert (response.error_code, response.responses) == (CODE, [])


def test_versions_without_an_error_of_the_request_tell_it_of_each_partition() -> None:
    response = answer("Fetch", 6, Depth.OUTERMOST)
    assert response.error_code == 0, "came with version 7"
    assert response.responses[0].partitions[0].error_code == CODE


def test_a_request_that_names_nothing_gets_no_answer_where_only_rows_have_errors() -> None:
    request = full_request(API_BY_NAME["Metadata"], 12)._replace(topics=[])
    assert answer("Metadata", 12, request=request) is None
