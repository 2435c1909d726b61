"""The table of error codes, and the exceptions of the wire."""

import pytest

from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError


def test_every_code_from_minus_one_on_is_there_once() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, len(ErrorCode) - 1))


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CONCURRENT_TRANSACTIONS])
def test_what_a_retry_may_help_is_marked(code: ErrorCode) -> None:
    assert code.retriable


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE])
def test_what_no_retry_helps_is_not(code: ErrorCode) -> None:
    assert not code.retriable


def test_a_code_is_its_number_on_the_wire() -> None:
    assert ErrorCode(47) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert ErrorCode.INVALID_PRODUCER_EPOCH.to_bytes(2, "big") == b"\x00\x2f"


def test_an_error_without_a_message_speaks_in_kafkas_words() -> None:
    error = KafkaError(ErrorCode.PRODUCER_FENCED)
    assert error.code is ErrorCode.PRODUCER_FENCED
    assert str(error) == ErrorCode.PRODUCER_FENCED.text


def test_an_errors_own_message_is_kept() -> None:
    error = KafkaError(ErrorCode.INVALID_TXN_STATE, "no transaction is open")
    assert error.message == "no transaction is open"
    assert str(error) == "no transaction is open"
    assert not isinstance(error, ProtocolError)
