"""Share-partitions by the name that Kafka's FindCoordinator has for them."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.coordinator.share.values import SharePartitionKey, parse_share_partition_key, topic_id_text

ID = UUID("cf9a5eab-1111-4222-8333-abcdefabcdef")
TEXT = "z5peqxERQiKDM6vN76vN7w"


def test_a_key_is_written_as_kafka_writes_it() -> None:
    assert topic_id_text(ID) == TEXT
    assert str(SharePartitionKey("a:b", ID, 3)) == f"a:b:{TEXT}:3"


@given(st.text(min_size=1).filter(lambda text: text.strip() and not text.endswith(":")), st.uuids(), st.integers(0, 99))
def test_every_key_is_read_back(group_id: str, topic_id: UUID, partition: int) -> None:
    key = SharePartitionKey(group_id, topic_id, partition)
    assert parse_share_partition_key(str(key)) == key


@pytest.mark.parametrize("text", [f"g:{TEXT}==:+3", f"g:{TEXT}:3:", f"g:{TEXT}:3::"])
def test_a_key_is_read_as_java_reads_it(text: str) -> None:
    assert parse_share_partition_key(text) == SharePartitionKey("g", ID, 3)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "cannot be empty"),
        ("group", "Invalid key format"),
        (f"{TEXT}:3", "Invalid key format"),
        (f" :{TEXT}:3", "GroupId must not be empty"),
        (f"g:{ID}:3", "Invalid topic ID"),
        (f"g:{TEXT[:-1]}:3", "Invalid topic ID"),
        (f"g:{TEXT}:x", "Invalid partition"),
        (f"g:{TEXT}:2147483648", "Invalid partition"),
        (f"g:{TEXT}:1_0", "Invalid partition"),
    ],
)
def test_what_is_no_key_is_refused_with_kafkas_reason(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_share_partition_key(text)
