"""The topology of a streams group as a record, in Kafka's format (KIP-1071).

Owns: encoding and decoding. Does not own: what a topology means (`topology`).
"""

from oncelog.broker.coordinator.group.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from oncelog.protocol.generated.streams_group_topology_value import CopartitionGroup as CopartitionGroupValue
from oncelog.protocol.generated.streams_group_topology_value import StreamsGroupTopologyValue, TopicConfig
from oncelog.protocol.generated.streams_group_topology_value import Subtopology as SubtopologyValue
from oncelog.protocol.generated.streams_group_topology_value import TopicInfo as TopicInfoValue


def to_record(topology: Topology) -> StreamsGroupTopologyValue:
    return StreamsGroupTopologyValue(
        topology.epoch,
        [
            SubtopologyValue(
                each.subtopology_id,
                each.source_topics,
                each.source_topic_regex,
                [_topic_value(topic) for topic in each.state_changelog_topics],
                each.repartition_sink_topics,
                [_topic_value(topic) for topic in each.repartition_source_topics],
                [
                    CopartitionGroupValue(
                        group.source_topics, group.source_topic_regex, group.repartition_source_topics
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in topology.subtopologies
        ],
    )


def _topic_value(topic: TopicInfo) -> TopicInfoValue:
    configs = [TopicConfig(key, value) for key, value in topic.config]
    return TopicInfoValue(topic.name, topic.partition_count, topic.replication_factor, configs)


def from_record(value: StreamsGroupTopologyValue) -> Topology:
    subtopologies = [
        Subtopology(
            each.subtopology_id,
            tuple(each.source_topics),
            tuple(each.source_topic_regex),
            tuple(map(_topic, each.state_changelog_topics)),
            tuple(each.repartition_sink_topics),
            tuple(map(_topic, each.repartition_source_topics)),
            tuple(
                CopartitionGroup(
                    tuple(group.source_topics), tuple(group.source_topic_regex), tuple(group.repartition_source_topics)
                )
                for group in each.copartition_groups
            ),
        )
        for each in value.subtopologies
    ]
    subtopologies.sort(key=lambda subtopology: subtopology.subtopology_id)
    return Topology(value.epoch, tuple(subtopologies))


def _topic(value: TopicInfoValue) -> TopicInfo:
    config = tuple((entry.key, entry.value) for entry in value.topic_configs)
    return TopicInfo(value.name, value.partitions, value.replication_factor, config)
