"""Messages of the most used APIs, byte by byte, as they were written down by hand in tests/vectors/."""

import pytest

from tests.support import kio_oracle
from tests.support.messages import message_named, plain
from tests.support.reference_codec import complete
from tests.support.vectors import Vector, all_vectors, leaves

MOST_USED = {
    "ApiVersions",
    "CreateTopics",
    "Fetch",
    "FindCoordinator",
    "JoinGroup",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "Produce",
}


@pytest.mark.parametrize("vector", all_vectors(), ids=str)
def test_the_bytes_decode_to_what_is_written_beside_them(vector: Vector) -> None:
    definition = message_named(vector.message_name)
    body = definition.message.body
    decoded = complete(body, plain(definition.decode(vector.version, vector.data)))
    found = {
        path: value for path, value, is_default in leaves(body, decoded) if not is_default or path in vector.claims
    }
    assert found == vector.claims, vector.place


@pytest.mark.parametrize("vector", all_vectors(), ids=str)
def test_the_decoded_message_encodes_to_the_same_bytes(vector: Vector) -> None:
    definition = message_named(vector.message_name)
    decoded = definition.decode(vector.version, vector.data)
    assert definition.encode(vector.version, decoded).hex(" ") == vector.data.hex(" "), vector.place


# kio refuses tags that it does not know, so what is written of them here stands alone.
@pytest.mark.parametrize("vector", [vector for vector in all_vectors() if "unknown_tags" not in vector.claims], ids=str)
def test_kio_agrees_with_what_was_written_by_hand(vector: Vector) -> None:
    definition = message_named(vector.message_name)
    body = definition.message.body
    entity = kio_oracle.decode(kio_oracle.kio_type(definition, vector.version), vector.data)
    decoded = complete(body, kio_oracle.from_kio(body, entity, vector.version))
    found = {
        path: value for path, value, is_default in leaves(body, decoded) if not is_default or path in vector.claims
    }
    assert found == vector.claims, vector.place
    assert kio_oracle.encode(entity).hex(" ") == vector.data.hex(" "), vector.place


@pytest.mark.parametrize("side", ["request", "response"])
def test_each_of_the_most_used_apis_has_an_old_and_a_flexible_vector(side: str) -> None:
    there = {
        (vector.api, message_named(vector.message_name).is_flexible(vector.version))
        for vector in all_vectors()
        if vector.side == side
    }
    assert there == {(api, flexible) for api in MOST_USED for flexible in (False, True)}
