"""The definition language, and what the definitions as a whole must be."""

from functools import cache
from pathlib import Path

import pytest
from wiregen.layout import describe_versions, layouts, resolve
from wiregen.model import ALWAYS, FOREVER, NEVER, Definition, DefinitionError, Field, Versions, snake_case
from wiregen.parser import parse

DEFINITIONS = Path(__file__).parents[3] / "definitions"

EXAMPLE = """\
# Read the end offset of an epoch.
# In two lines.
api Example 23
versions 2-4, flexible 4+
listeners broker controller

request
  replica_id: int32 3+ = -2 ignorable
  topics: [Topic]?3+          # null: all of them
    name: string key
    partitions: [Partition]
  cluster_id: string? 4+ tag 0 = null

response
  topics: [Partition] rare

struct Partition
  index: int32
"""


def read(tmp_path: Path, text: str) -> Definition:
    path = tmp_path / "example.wire"
    path.write_text(text)
    return parse(path)


def field(definition: Definition, path: str) -> Field:
    struct = definition.messages[0].body
    *parents, name = path.split(".")
    for parent in parents:
        inner = next(each for each in struct.fields if each.name == parent).struct
        assert inner
        struct = inner
    return next(each for each in struct.fields if each.name == name)


@cache
def all_definitions() -> list[Definition]:
    return [parse(path) for path in sorted(DEFINITIONS.glob("*.wire"))]


def test_a_definition_says_name_key_versions_and_listeners(tmp_path: Path) -> None:
    definition = read(tmp_path, EXAMPLE)
    assert definition.module == "example"
    assert definition.about == "Read the end offset of an epoch. In two lines."
    api = definition.api
    assert api
    assert (api.name, api.key, api.versions, api.flexible) == ("Example", 23, Versions(2, 4), Versions(4, FOREVER))
    assert (api.unstable, api.listeners) == (None, ("broker", "controller"))
    assert [message.table for message in definition.messages] == ["request", "response"]


def test_a_field_says_type_versions_null_tag_default_and_flags(tmp_path: Path) -> None:
    definition = read(tmp_path, EXAMPLE)
    replica_id = field(definition, "replica_id")
    assert (replica_id.type, replica_id.versions, replica_id.default) == ("int32", Versions(3, FOREVER), "-2")
    assert replica_id.is_ignorable
    assert not replica_id.is_key
    topics = field(definition, "topics")
    assert topics.is_array
    assert (topics.versions, topics.nullable, topics.tag) == (ALWAYS, Versions(3, FOREVER), None)
    assert field(definition, "topics.name").is_key
    cluster_id = field(definition, "cluster_id")
    assert (cluster_id.nullable, cluster_id.tag, cluster_id.default) == (Versions(4, FOREVER), 0, "null")
    assert field(definition, "topics.partitions").nullable == NEVER


def test_a_struct_that_several_fields_share_stands_once(tmp_path: Path) -> None:
    definition = read(tmp_path, EXAMPLE)
    assert [struct.name for struct in definition.structs()] == [
        "Partition",
        "Topic",
        "ExampleRequest",
        "ExampleResponse",
    ]


def test_pairs_records_and_data_have_versions_of_their_own(tmp_path: Path) -> None:
    definition = read(
        tmp_path,
        "pair Offset 7\nkey versions 0\n  group: string\nvalue versions 0-3, flexible 3+\n  offset: int64\n"
        "record Topic 2\nversions 0, flexible 0+\n  name: string\ndata Marker\nversions 0-1\n  epoch: int32\n",
    )
    assert [(each.body.name, each.versions.last, each.flexible.first) for each in definition.messages] == [
        ("OffsetKey", 0, NEVER.first),
        ("OffsetValue", 3, 3),
        ("Topic", 0, 0),
        ("Marker", 1, NEVER.first),
    ]
    assert [(record.name, record.id, record.is_pair) for record in definition.records] == [
        ("Offset", 7, True),
        ("Topic", 2, False),
    ]


def test_layouts_leave_out_what_a_version_does_not_have(tmp_path: Path) -> None:
    request = read(tmp_path, EXAMPLE).messages[0]
    second, third, fourth = (resolve(request, version) for version in (2, 3, 4))
    assert [slot.field.name for slot in second.slots] == ["topics"]
    assert [each.name for each in second.absent] == ["replica_id", "cluster_id"]
    assert not second.slots[0].is_nullable
    assert third.slots[1].is_nullable
    assert [slot.field.name for slot in fourth.tagged] == ["cluster_id"]
    assert fourth.slots[1].is_compact
    assert (second.minimal_size, third.minimal_size, fourth.minimal_size) == (4, 8, 6)


def test_versions_with_equal_layouts_are_grouped(tmp_path: Path) -> None:
    definition = read(tmp_path, EXAMPLE)
    assert [versions for _, versions in layouts(definition.messages[0])] == [(2,), (3,), (4,)]
    assert [versions for _, versions in layouts(definition.messages[1])] == [(2, 3), (4,)]


@pytest.mark.parametrize(
    ("versions", "text"),
    [((3,), "version 3"), ((3, 4, 5), "versions 3-5"), ((0, 1, 4), "versions 0-1 and 4")],
)
def test_versions_are_described_for_people(versions: tuple[int, ...], text: str) -> None:
    assert describe_versions(versions) == text


@pytest.mark.parametrize(
    ("find", "replace", "complaint"),
    [
        ("  replica_id", "   replica_id", "8: indent by two spaces"),
        ("  replica_id", "    replica_id", "8: indent by two spaces"),
        ("replica_id: int32", "replica_id: int33", "8: int33 is not a type"),
        ("replica_id: int32", "replica_id int32", "8: not a field"),
        ("replica_id: int32", "class: int32", "8: class cannot be the name of a field"),
        ("replica_id: int32", "bytes: int32", "8: bytes cannot be the name of a field"),
        ("replica_id: int32", "topics: int32", "8: a second field of this name"),
        ("3+ = -2", "3+ = null", "8: null cannot be the default here"),
        ("3+ = -2", "3+ = true", "8: true cannot be the default here"),
        ("replica_id: int32", "replica_id: int32?", "8: int32 cannot be null"),
        ("-2 ignorable", "-2 rare", "8: only arrays and what may be null can be rare"),
        ("tag 0", "tag 1", "tags are numbered from 0"),
        ("[Partition]\n  cluster", "[Portion]\n  cluster", "11: no struct Portion in this file"),
        ("[Partition] rare", "[Topic]\n    index: int8", "15: Topic is already a struct of line 9"),
        ("struct Partition", "struct Partition\n  a: int8\nstruct Partition", "19: a second struct Partition"),
        ("  index: int32", "  index: int32\n  inner: [Partition]", "Partition would contain itself"),
        ("struct Partition", "struct Unused\n  a: int8\n\nstruct Partition", "no field uses this struct"),
        ("listeners broker controller", "listeners broken", "5: listeners"),
        ("versions 2-4, flexible 4+", "version 2", "4: versions A-B"),
        ("versions 2-4, flexible 4+", "versions 2-4, flexible 4+, unstable 3", "4: only the latest version"),
        ("\nresponse", "\nreply", "the response is expected here"),
        ("api Example 23", "api Example", "3: a block starts with"),
        ("name: string key", "name: string key\n      inner: int8", "string has no fields"),
    ],
)
def test_a_mistake_is_told_with_file_and_line(tmp_path: Path, find: str, replace: str, complaint: str) -> None:
    assert find in EXAMPLE
    with pytest.raises(DefinitionError, match=r"^example\.wire:\d+: ") as caught:
        read(tmp_path, EXAMPLE.replace(find, replace, 1))
    assert complaint in str(caught.value)


def test_a_file_that_ends_too_early_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="the response is expected at the end"):
        read(tmp_path, "api Example 1\nversions 0\nlisteners broker\nrequest\n  a: int8\n")


def test_a_struct_cannot_serve_flexible_and_inflexible_messages(tmp_path: Path) -> None:
    text = "data A\nversions 0\n  rows: [Row]\ndata B\nversions 0, flexible 0+\n  rows: [Row]\nstruct Row\n  a: int8\n"
    with pytest.raises(DefinitionError, match="Row is shared by a message with flexible versions and one without"):
        read(tmp_path, text)


def test_rows_of_no_bytes_are_refused_because_their_count_could_not_be_checked(tmp_path: Path) -> None:
    definition = read(tmp_path, "data A\nversions 0-1\n  rows: [Row]\n    late: int8 1+\n")
    assert resolve(definition.messages[0], 1)
    with pytest.raises(DefinitionError, match="a row of no bytes in version 0"):
        resolve(definition.messages[0], 0)


def test_a_tagged_field_needs_a_flexible_version(tmp_path: Path) -> None:
    definition = read(tmp_path, "data A\nversions 0-1, flexible 1+\n  late: int8 tag 0\n")
    with pytest.raises(DefinitionError, match="tagged in version 0, which is not flexible"):
        resolve(definition.messages[0], 0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("FetchRequest", "fetch_request"), ("KRaftVersionRecord", "kraft_version_record"), ("IsrV2Set", "isr_v2_set")],
)
def test_names_are_written_in_snake_case(name: str, expected: str) -> None:
    assert snake_case(name) == expected


# --- the definitions themselves


def test_every_api_key_of_kafka_4_3_is_defined_once_in_the_file_of_its_name() -> None:
    definitions = all_definitions()
    spoken = {definition.api.key: definition for definition in definitions if definition.api}
    removed = {api.key for definition in definitions for api in definition.removed}
    assert removed == {4, 5, 6, 7}
    assert sorted([*spoken, *removed]) == list(range(93))
    for definition in spoken.values():
        assert definition.api
        assert definition.module == snake_case(definition.api.name)


def test_every_definition_opens_with_a_sentence() -> None:
    for definition in all_definitions():
        assert definition.about.endswith("."), definition.module


def test_only_init_producer_id_has_an_unstable_version() -> None:
    unstable = {api.name: api.unstable for each in all_definitions() if (api := each.api) and api.unstable is not None}
    assert unstable == {"InitProducerId": 6}


def test_brokers_and_controllers_serve_as_many_apis_as_those_of_kafka() -> None:
    listeners = [api.listeners for each in all_definitions() if (api := each.api)]
    assert sum("broker" in names for names in listeners) == 77
    assert sum("controller" in names for names in listeners) == 41


def test_records_of_the_logs_are_all_there() -> None:
    records = {definition.module: definition.records for definition in all_definitions() if definition.records}
    assert {module: len(types) for module, types in records.items()} == {
        "metadata_records": 26,
        "group_records": 22,
        "transaction_records": 1,
        "share_records": 2,
    }


def test_all_messages_and_versions_are_there() -> None:
    messages = [message for definition in all_definitions() for message in definition.messages]
    assert len(messages) == 267
    assert sum(len(list(message.versions)) for message in messages) == 723


def test_flexible_versions_are_the_later_ones() -> None:
    for definition in all_definitions():
        for message in definition.messages:
            assert message.flexible == NEVER or message.flexible.last == FOREVER, message.body.name


def test_the_client_id_is_the_only_field_that_never_becomes_flexible() -> None:
    inflexible = [
        each.name
        for definition in all_definitions()
        for struct in definition.structs()
        for each in struct.fields
        if each.is_inflexible
    ]
    assert inflexible == ["client_id"]
