"""What the topics of a topology must be like: counts that follow from each other, and topologies that nothing fits."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.cluster.metadata_log import Topic
from oncelog.broker.coordinator.group.streams.internal_topics import ConfiguredTopology, StatusCode, configure
from oncelog.broker.coordinator.group.streams.topology import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    make_topology,
)
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.topics import ZERO_UUID


class Catalog:
    def __init__(self, counts: Mapping[str, int]) -> None:
        self._topics = {name: Topic(name, ZERO_UUID, count, {}) for name, count in counts.items()}

    def get(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def by_id(self, _: object) -> None:
        raise AssertionError("not asked for")

    def all(self) -> list[Topic]:
        return list(self._topics.values())


def configured(counts: Mapping[str, int], *subtopologies: Subtopology) -> ConfiguredTopology:
    return configure(make_topology(3, subtopologies), Catalog(counts))


def missing(topology: ConfiguredTopology) -> dict[str, int]:
    return {topic.name: topic.partition_count for topic in topology.missing}


def writes(subtopology_id: str, *sources: str, sinks: tuple[str, ...]) -> Subtopology:
    return Subtopology(subtopology_id, sources, repartition_sink_topics=sinks)


def reads(subtopology_id: str, *topics: TopicInfo, **fields: object) -> Subtopology:
    return Subtopology(subtopology_id, repartition_source_topics=topics, **fields)  # type: ignore[arg-type]


def test_a_repartition_topic_is_as_large_as_the_largest_that_is_read_for_it() -> None:
    topology = configured({"a": 2, "b": 5}, writes("0", "a", "b", sinks=("r",)), reads("1", TopicInfo("r")))
    assert missing(topology) == {"r": 5}
    assert {name: each.task_count for name, each in topology.subtopologies.items()} == {"0": 5, "1": 5}
    assert topology.problem is not None and topology.problem.code is StatusCode.MISSING_INTERNAL_TOPICS


def test_counts_follow_from_each_other_in_any_order() -> None:
    last = reads("0", TopicInfo("r2"), state_changelog_topics=(TopicInfo("c"),))
    middle = reads("1", TopicInfo("r1"), repartition_sink_topics=("r2",))
    assert missing(configured({"a": 7}, last, middle, writes("2", "a", sinks=("r1",)))) == {"r1": 7, "r2": 7, "c": 7}


def test_a_repartition_topic_has_the_partitions_that_the_application_sets() -> None:
    topology = configured({"a": 2}, writes("0", "a", sinks=("r",)), reads("1", TopicInfo("r", 9, 0, (("k", "v"),))))
    (topic,) = topology.missing
    assert (topic.partition_count, topic.config) == (9, {"k": "v"})


def test_a_copartitioned_repartition_topic_is_as_large_as_the_topic_beside_it() -> None:
    joined = Subtopology(
        "1",
        ("b",),
        repartition_source_topics=(TopicInfo("r"),),
        copartition_groups=(CopartitionGroup((0,), (), (0,)),),
    )
    assert missing(configured({"a": 2, "b": 6}, writes("0", "a", sinks=("r",)), joined)) == {"r": 6}


def test_copartitioned_repartition_topics_are_as_large_as_the_largest() -> None:
    joined = reads("2", TopicInfo("r"), TopicInfo("s"), copartition_groups=(CopartitionGroup((), (), (0, 1)),))
    sources = writes("0", "a", sinks=("r",)), writes("1", "b", sinks=("s",))
    assert missing(configured({"a": 2, "b": 6}, *sources, joined)) == {"r": 6, "s": 6}


def test_one_fixed_count_decides_for_those_beside_it_alone() -> None:
    joined = reads("2", TopicInfo("r", 3), TopicInfo("s"), copartition_groups=(CopartitionGroup((), (), (0, 1)),))
    other = reads("3", TopicInfo("t", 8))
    sources = writes("0", "a", sinks=("r", "t")), writes("1", "b", sinks=("s",))
    assert missing(configured({"a": 2, "b": 6}, *sources, joined, other)) == {"r": 3, "s": 3, "t": 8}


@pytest.mark.parametrize(
    ("counts", "groups", "detail"),
    [
        (
            {"b": 6},
            (CopartitionGroup((0,), (), (0,)),),
            "Number of partitions [3] of repartition topic [r] doesn't match ",
        ),
        (
            {"b": 6, "c": 2},
            (CopartitionGroup((0, 1)),),
            "Following topics do not have the same number of partitions: [{b=6, c=2}]",
        ),
    ],
)
def test_copartitioned_topics_that_differ_are_reported(
    counts: Mapping[str, int], groups: tuple[CopartitionGroup, ...], detail: str
) -> None:
    joined = Subtopology("1", tuple(counts), repartition_source_topics=(TopicInfo("r", 3),), copartition_groups=groups)
    topology = configured({"a": 2, **counts}, writes("0", "a", sinks=("r",)), joined)
    assert topology.problem is not None and topology.problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert topology.problem.detail.startswith(detail)
    assert (topology.subtopologies, topology.missing) == ({}, ())


def test_a_changelog_is_as_large_as_the_topics_of_its_subtopology_and_what_exists_is_not_missing() -> None:
    stateful = Subtopology("0", ("a",), state_changelog_topics=(TopicInfo("c"), TopicInfo("d")))
    topology = configured({"a": 4, "c": 4}, stateful)
    assert missing(topology) == {"d": 4}
    assert configured({"a": 4, "c": 4, "d": 4}, stateful).is_ready


def test_a_long_list_of_missing_topics_is_cut_short() -> None:
    problem = configured({}, Subtopology("0", ("e", "d", "c", "b"))).problem
    assert problem is not None
    assert problem.detail == "Source topics b, c, d and 1 additional topics are missing."


NAMES = st.sampled_from([f"r{number}" for number in range(5)])


@given(
    parts=st.lists(
        st.tuples(st.booleans(), st.frozensets(NAMES, max_size=2), st.frozensets(NAMES, max_size=2)), max_size=6
    ),
    fixed=st.dictionaries(NAMES, st.integers(1, 9)),
)
def test_counts_are_those_of_going_through_all_subtopologies_again_and_again(
    parts: Sequence[tuple[bool, frozenset[str], frozenset[str]]], fixed: Mapping[str, int]
) -> None:
    """Kafka's way, which takes as many rounds as a chain has links."""
    counts = {f"source{index}": 2 * index + 1 for index in range(len(parts))}
    subtopologies = [
        Subtopology(
            str(index),
            (f"source{index}",) if is_source else (),
            repartition_sink_topics=tuple(sorted(sinks)),
            repartition_source_topics=tuple(TopicInfo(name, fixed.get(name, 0)) for name in sorted(sources)),
        )
        for index, (is_source, sinks, sources) in enumerate(parts)
        if is_source or sources
    ]
    read = {topic.name for each in subtopologies for topic in each.repartition_source_topics}
    found = {name: count for name, count in fixed.items() if name in read}
    for _ in range(len(subtopologies) + 1):
        for each in subtopologies:
            known = [counts[name] for name in each.source_topics]
            known += [found[topic.name] for topic in each.repartition_source_topics if topic.name in found]
            for sink in each.repartition_sink_topics:
                if known:
                    found.setdefault(sink, max(known))
    written = {name for each in subtopologies for name in each.repartition_sink_topics}
    if read | written <= found.keys():
        assert missing(configured(counts, *subtopologies)) == {name: found[name] for name in sorted(read)}
    else:
        with pytest.raises(KafkaError):
            configured(counts, *subtopologies)


def test_a_count_is_decided_by_what_is_known_when_its_subtopology_has_its_turn() -> None:
    """In the second round w follows from y alone, as z is decided only after it, as in Kafka."""
    topology = configured(
        {"a": 2, "b": 9},
        reads("0", TopicInfo("x"), repartition_sink_topics=("y",)),
        reads("1", TopicInfo("y"), TopicInfo("z"), repartition_sink_topics=("w",)),
        reads("2", TopicInfo("v"), repartition_sink_topics=("z",)),
        writes("3", "a", sinks=("x",)),
        writes("4", "b", sinks=("v",)),
        reads("5", TopicInfo("w")),
    )
    assert missing(topology) == {"v": 9, "w": 2, "x": 2, "y": 2, "z": 9}


def test_more_tasks_than_a_turn_can_assign_are_rejected() -> None:
    wide = [Subtopology(str(number), ("a",)) for number in range(11)]
    assert configured({"a": 10_000}, *wide[1:]).is_ready
    with pytest.raises(KafkaError) as raised:
        configured({"a": 10_000}, *wide)
    assert raised.value.message == "The topology has more than 100000 tasks."


LOOP = (
    Subtopology("0", (), repartition_sink_topics=("r",), repartition_source_topics=(TopicInfo("s"),)),
    Subtopology("1", (), repartition_sink_topics=("s",), repartition_source_topics=(TopicInfo("r"),)),
)


@pytest.mark.parametrize(
    "subtopologies",
    [
        LOOP,
        (reads("0", TopicInfo("r")),),
        (Subtopology("0"),),
        (Subtopology("0", ("a",)), Subtopology("0", ("a",))),
        (Subtopology("0", ("a",), copartition_groups=(CopartitionGroup((1,)),)),),
        (Subtopology("0", ("a",), copartition_groups=(CopartitionGroup((-1,)),)),),
        (reads("0", TopicInfo("r", -2)),),
    ],
    ids=["loop", "never written", "nothing read", "twice", "no such topic", "before the first", "negative"],
)
def test_a_topology_that_no_topics_fit_is_invalid(subtopologies: tuple[Subtopology, ...]) -> None:
    with pytest.raises(KafkaError) as raised:
        configured({"a": 1}, *subtopologies)
    assert raised.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
