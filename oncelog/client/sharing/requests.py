"""ShareFetch and ShareAcknowledge as messages: what is asked of a node, and what is said to it.

Owns: the layout by topic and partition, which names a partition once whatever is said of it. Does not own: when they
are sent (`exchange`). Pure functions.
"""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from oncelog.client.options.choices import AcquireMode
from oncelog.client.options.share_settings import ShareConsumerSettings
from oncelog.client.sharing.acknowledgements import RENEW, Acknowledgements, ranges_of
from oncelog.client.sharing.session import Place, SessionPart
from oncelog.protocol.generated.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from oncelog.protocol.generated.share_fetch_request import (
    AcknowledgementBatch as FetchAcknowledgementBatch,
)
from oncelog.protocol.generated.share_fetch_request import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)

_ACQUIRE_MODES: Mapping[AcquireMode, int] = {"batch_optimized": 0, "record_limit": 1}


def place_of(acknowledgements: Acknowledgements) -> Place:
    return acknowledgements.origin.topic_id, acknowledgements.origin.topic_partition.partition


def fetch_request(
    settings: ShareConsumerSettings, member_id: str, part: SessionPart, acknowledged: Sequence[Acknowledgements]
) -> ShareFetchRequest:
    """Return a request for records, which carries the acknowledgements of those before."""
    types = _types_by_place(acknowledged)
    topics = _by_topic(dict.fromkeys((*part.added, *types)))
    return ShareFetchRequest(
        group_id=settings.group_id,
        member_id=member_id,
        share_session_epoch=part.epoch,
        max_wait_ms=settings.fetch_max_wait_ms,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=settings.fetch_max_bytes,
        max_records=settings.max_poll_records,
        batch_size=settings.max_poll_records,
        share_acquire_mode=_ACQUIRE_MODES[settings.share_acquire_mode],
        topics=[
            FetchTopic(
                topic_id=topic_id,
                partitions=[
                    FetchPartition(
                        partition_index=index,
                        acknowledgement_batches=[
                            FetchAcknowledgementBatch(*each) for each in ranges_of(types.get((topic_id, index), {}))
                        ],
                    )
                    for _, index in places
                ],
            )
            for topic_id, places in topics
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic_id=topic_id, partitions=[index for _, index in places])
            for topic_id, places in _by_topic(part.forgotten)
        ],
    )


def acknowledge_request(
    settings: ShareConsumerSettings, member_id: str, epoch: int, acknowledged: Sequence[Acknowledgements]
) -> ShareAcknowledgeRequest:
    """Return a request with acknowledgements alone."""
    types = _types_by_place(acknowledged)
    return ShareAcknowledgeRequest(
        group_id=settings.group_id,
        member_id=member_id,
        share_session_epoch=epoch,
        is_renew_ack=any(RENEW in each.values() for each in types.values()),
        topics=[
            AcknowledgeTopic(
                topic_id=topic_id,
                partitions=[
                    AcknowledgePartition(
                        partition_index=place[1],
                        acknowledgement_batches=[AcknowledgementBatch(*each) for each in ranges_of(types[place])],
                    )
                    for place in places
                ],
            )
            for topic_id, places in _by_topic(types)
        ],
    )


def _types_by_place(acknowledged: Iterable[Acknowledgements]) -> dict[Place, dict[int, int]]:
    types: dict[Place, dict[int, int]] = {}
    for each in acknowledged:
        types.setdefault(place_of(each), {}).update(each.types)
    return types


def _by_topic(places: Iterable[Place] | Mapping[Place, object]) -> list[tuple[UUID, list[Place]]]:
    topics: dict[UUID, list[Place]] = {}
    for place in places:
        topics.setdefault(place[0], []).append(place)
    return list(topics.items())
