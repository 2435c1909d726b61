"""Request and response headers: which form an API has, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.generated import request_header, response_header
from oncelog.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)

NEVER = 32_767
INT16 = st.integers(0, 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
CLIENT_ID = st.none() | st.text(max_size=40)


@given(INT16, st.integers(0, 30), INT32, CLIENT_ID, st.booleans())
def test_request_headers_are_those_of_the_schema_and_come_back(
    api_key: int, version: int, correlation_id: int, client_id: str | None, flexible: bool
) -> None:
    encoded = encode_request_header(api_key, version, correlation_id, client_id, flexible)
    declared = request_header.RequestHeader(
        request_api_key=api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    assert encoded == b"".join(request_header.encode(declared, 2 if flexible else 1))
    header, position = decode_request_header(memoryview(encoded + b"body"), 0 if flexible else NEVER)
    assert header == RequestHeader(api_key, version, correlation_id, client_id)
    assert position == len(encoded)


@given(INT32, st.booleans())
def test_response_headers_are_those_of_the_schema_and_come_back(correlation_id: int, flexible: bool) -> None:
    encoded = encode_response_header(correlation_id, flexible)
    declared = response_header.ResponseHeader(correlation_id=correlation_id)
    assert encoded == b"".join(response_header.encode(declared, 1 if flexible else 0))
    assert decode_response_header(memoryview(encoded + b"body"), flexible) == (correlation_id, len(encoded))


def test_the_client_id_stays_a_plain_string_in_a_flexible_header() -> None:
    encoded = encode_request_header(ApiKey.METADATA, 12, 7, "rdkafka", True)
    assert encoded == b"\x00\x03\x00\x0c\x00\x00\x00\x07\x00\x07rdkafka\x00"


def test_tagged_fields_of_a_later_client_are_skipped() -> None:
    encoded = encode_request_header(ApiKey.METADATA, 12, 7, "c", True)[:-1] + b"\x02\x00\x01x\x63\x02yz"
    assert decode_request_header(memoryview(encoded), 9)[1] == len(encoded)


@pytest.mark.parametrize("flexible", [False, True])
def test_every_truncation_of_a_request_header_is_refused(flexible: bool) -> None:
    encoded = encode_request_header(ApiKey.FETCH, 12, 7, "client", flexible)
    for end in range(len(encoded)):
        with pytest.raises(ProtocolError):
            decode_request_header(memoryview(encoded)[:end], 0 if flexible else NEVER)


@given(st.binary(max_size=32), st.sampled_from([0, 9, NEVER]))
def test_arbitrary_bytes_are_a_request_header_or_refused(data: bytes, flexible_from: int) -> None:
    try:
        _, position = decode_request_header(memoryview(data), flexible_from)
    except ProtocolError:
        return
    assert position <= len(data)


def with_client_id(length: int, text: bytes) -> memoryview:
    return memoryview(b"\x00\x03\x00\x01\x00\x00\x00\x07" + length.to_bytes(2, "big", signed=True) + text)


def test_a_client_id_longer_than_its_frame_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(with_client_id(5, b"abcd"), NEVER)


@pytest.mark.parametrize("length", [-1, -2, -32_768])
def test_a_client_id_of_any_negative_length_is_null(length: int) -> None:
    header, position = decode_request_header(with_client_id(length, b"body"), NEVER)
    assert (header.client_id, position) == (None, 10)


@given(st.binary(max_size=40), st.integers(1, 800))
def test_a_client_id_of_any_bytes_is_a_text_that_answers_can_repeat(text: bytes, times: int) -> None:
    text = (text * times)[:32_767]
    header, position = decode_request_header(with_client_id(len(text), text), NEVER)
    assert position == 10 + len(text)
    assert len((header.client_id or "").encode()) <= 32_767


@pytest.mark.parametrize("end", range(5))
def test_every_truncation_of_a_response_header_is_refused(end: int) -> None:
    with pytest.raises(ProtocolError):
        decode_response_header(memoryview(encode_response_header(7, True))[:end], True)
