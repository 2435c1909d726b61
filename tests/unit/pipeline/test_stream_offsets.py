"""The stream's offset in the checkpoint: it survives JSON, and is the same text whenever it is the same offset."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.pipeline.source.offsets import INITIAL, ForeignOffset, TopicOffsets, from_json, to_json

BY_PARTITION = st.dictionaries(st.integers(0, 20), st.integers(0, 1 << 40), min_size=1, max_size=12)
TOPICS = st.builds(TopicOffsets, st.sampled_from(["", "id"]), BY_PARTITION, BY_PARTITION, BY_PARTITION | st.just({}))
OFFSETS = st.dictionaries(st.sampled_from(["a", "b", "c.d"]), TOPICS, max_size=3)


@given(OFFSETS)
def test_an_offset_comes_back_from_the_checkpoint_as_it_was(offset: dict[str, TopicOffsets]) -> None:
    assert from_json(json.loads(json.dumps(to_json(offset)))) == offset


@given(OFFSETS)
def test_equal_offsets_are_equal_texts_whatever_the_order_of_their_parts(offset: dict[str, TopicOffsets]) -> None:
    turned = {
        name: TopicOffsets(
            topic.topic_id, *(dict(reversed(part.items())) for part in (topic.start, topic.next, topic.lost))
        )
        for name, topic in reversed(offset.items())
    }
    assert json.dumps(to_json(turned)) == json.dumps(to_json(offset))


def test_the_offset_before_the_first_batch_says_nothing_that_could_change() -> None:
    assert to_json(INITIAL) == {"version": 1, "topics": {}}


def test_an_offset_of_sparks_kafka_source_is_a_position_in_topics_of_unknown_id() -> None:
    assert from_json({"a": {"0": 5, "10": 7}}) == {"a": TopicOffsets("", {0: 5, 10: 7}, {0: 5, 10: 7})}


@pytest.mark.parametrize("value", [{}, {"0": 5}, {"version": 2, "topics": {}}, {"a": {"0": "5"}}, {"a": {"x": 5}}])
def test_an_offset_of_another_source_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(ForeignOffset, match="no offset of this source"):
        from_json(value)
