"""Error codes: the same numbers, names and retriability as the definitions that `kio` was generated from."""

from kio.schema.errors import ErrorCode as KioErrorCode

from headrace.protocol.error_codes import ErrorCode


def test_codes_names_and_retriability_are_kafkas() -> None:
    ours = {int(code): (code.name, code.retriable) for code in ErrorCode}
    kios = {int(code): (code.name.upper(), code.retriable) for code in KioErrorCode}
    assert ours == kios


def test_every_code_from_minus_one_on_is_there_once() -> None:
    assert sorted(ErrorCode) == list(range(-1, 134))
    assert len(ErrorCode.__members__) == 135, "an alias would hide a number that was given twice"


def test_a_code_is_an_int_that_can_be_packed_compared_and_looked_up() -> None:
    from_the_wire = int.from_bytes(b"\0\6", "big")
    assert ErrorCode(from_the_wire) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert from_the_wire == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert type(ErrorCode.NOT_LEADER_OR_FOLLOWER.value) is int
    assert ErrorCode.NONE.to_bytes(2, "big") == b"\0\0"
    assert not ErrorCode.NONE


def test_every_code_has_a_sentence_of_its_own_for_people() -> None:
    sentences = [code.meaning for code in ErrorCode]
    assert len(set(sentences)) == len(sentences)
    assert all(sentence[0].isupper() or sentence.split()[0].islower() for sentence in sentences)
    assert all(sentence.endswith(".") for sentence in sentences)
