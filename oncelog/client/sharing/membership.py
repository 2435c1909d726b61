"""Membership in a share group (KIP-932): heartbeats say which topics this member wants, the coordinator assigns.

Owns: what the heartbeats say, the assignment. Does not own: when they are sent (`groups.heartbeating`), what is done
with the partitions, which other members may have too (`exchange`). Invariant: an assignment counts from when it is
received: nothing has to be given up first, and nothing is reported.
"""

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence

from oncelog.client.groups.heartbeating import Heartbeats, HeartbeatSettings, Report
from oncelog.client.options.share_settings import ShareConsumerSettings
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import Cluster
from oncelog.client.wire.share_apis import SHARE_GROUP_HEARTBEAT
from oncelog.protocol.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest

_DISABLED = "share groups are switched off there: oncelog cluster alter --feature share.version=1"


def new_member_id() -> str:
    """Return a member id: a random UUID, as Kafka writes it, since leaders read it as one."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


class ShareMembership:
    def __init__(
        self,
        cluster: Cluster,
        settings: ShareConsumerSettings,
        member_id: str,
        on_assigned: Callable[[Mapping[TopicPartition, uuid.UUID]], None],
        on_ended: Callable[[], None],
    ) -> None:
        """`on_ended` is called when `follow` may raise."""
        self.assignment: Mapping[TopicPartition, uuid.UUID] = {}
        self.on_ended = on_ended
        self._settings = settings
        self._member_id = member_id
        self._on_assigned = on_assigned
        heartbeats = HeartbeatSettings(
            SHARE_GROUP_HEARTBEAT,
            settings.group_id,
            settings.max_poll_interval_ms,
            settings.default_api_timeout_ms,
            disabled_hint=_DISABLED,
        )
        self._heartbeats = Heartbeats(cluster, heartbeats, self, ())
        self.polling = self._heartbeats.polling

    @property
    def topics(self) -> tuple[str, ...]:
        return self._heartbeats.topics or ()

    def subscribe(self, topics: Sequence[str]) -> None:
        """Want exactly these topics; without any, leave the group."""
        self._heartbeats.topics = tuple(sorted(set(topics)))
        self._heartbeats.report(self.topics)

    def follow(self) -> None:
        """Be a member while there are topics. Raises the error that ended the membership, once."""
        self._heartbeats.follow()

    async def leave(self, deadline: Deadline) -> None:
        await self._heartbeats.leave(deadline)

    async def close(self) -> None:
        await self._heartbeats.close()

    def request(self, epoch: int, report: Report | None, *, says_all: bool) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            rack_id=self._settings.client_rack if says_all else None,
            subscribed_topic_names=report,
        )

    def on_assignment(self, assignment: Mapping[TopicPartition, uuid.UUID]) -> None:
        if assignment != self.assignment:
            self.assignment = assignment
            self._on_assigned(assignment)

    def on_lost(self) -> bool:
        self.on_assignment({})
        return True
