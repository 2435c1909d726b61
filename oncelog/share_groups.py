"""What a share group has in flight, and which of its records fail: `ask_share_group` asks a broker's HTTP listener.

Owns: the values, one HTTP request. Does not own: what is counted (`broker.sharing`). Members and lag are in Kafka's
protocol: `Admin.describe_share_groups`, `Admin.list_share_group_offsets`.

    for each in ask_share_group("127.0.0.1:9404", "workers"):
        print(each.topic, each.partition, each.in_flight, each.delivery_counts, each.failed)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote

from oncelog.http_port import HttpPort, PortUnavailable

__all__ = ["FailedRecord", "ShareGroupUnavailable", "SharePartition", "ask_share_group"]
_WHAT = "share groups"


class ShareGroupUnavailable(Exception):
    """Raised if a broker does not say what a share group has in flight; the message says what to do."""


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record that was rejected, given up, or came back more than once, since the start of the broker."""

    offset: int
    released: int
    """How often its member has released it."""
    lost: int
    """How often its lock ran out, or the session of its member ended."""
    rejected: int
    is_archived: bool
    """Whether it was rejected, or delivered as often as it may be: it is not delivered again."""

    @property
    def failure_count(self) -> int:
        """How many of its deliveries have failed."""
        return self.released + self.lost + self.rejected


@dataclass(frozen=True, slots=True)
class SharePartition:
    """A partition as a share group has it in the memory of the broker that leads it."""

    topic: str
    partition: int
    is_in_use: bool
    """Whether a member has a session for it; if not, only its failed records are known."""
    start_offset: int | None = None
    """The oldest record that is neither acknowledged nor archived."""
    end_offset: int | None = None
    """The last record that was handed out; if none is in flight, the start offset."""
    in_flight: int = 0
    """How many offsets there are from the one to the other, done and missing ones among them included."""
    acquired: int = 0
    """How many records a member holds now."""
    available: int = 0
    """How many records have come back, and wait for a member."""
    delivery_complete: int = 0
    """How many records from the start offset on are acknowledged or archived."""
    delivery_counts: Mapping[int, int] = field(default_factory=dict)
    """How many of the acquired and available records were delivered how often: the records by the deliveries."""
    failed: tuple[FailedRecord, ...] = ()
    """The records that have failed most often, up to ten, the worst first."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the value in a response. Raises KeyError, TypeError or ValueError for anything else."""
        counts = {int(deliveries): records for deliveries, records in values.get("delivery_counts", {}).items()}
        failed = tuple(FailedRecord(**each) for each in values["failed"])
        return cls(**{**values, "delivery_counts": counts, "failed": failed})


def ask_share_group(
    address: str, group_id: str, timeout_s: float = 30.0, *, token: str | None = None, ca_file: str | None = None
) -> list[SharePartition]:
    """Return the partitions that a share group uses at a broker now, and those with records that have failed. `address`
    is HOST:PORT, or https://HOST:PORT, of its `oncelog.metrics.listen` or `oncelog.admin.listen`; `token` the one in
    the file of that port, `ca_file` has the certificates (PEM) that the broker's is signed with. A group that is
    unknown there has none. Raises ShareGroupUnavailable."""
    port = HttpPort(address, token, ca_file)
    try:
        return _partitions(port, group_id, timeout_s)
    except PortUnavailable as error:
        raise ShareGroupUnavailable(str(error)) from error


def _partitions(port: HttpPort, group_id: str, timeout_s: float) -> list[SharePartition]:
    """Raises PortUnavailable."""
    values = port.get(f"/share-groups/{quote(group_id, safe='')}", timeout_s, what=_WHAT)
    try:
        return [SharePartition.from_json(each) for each in values["partitions"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise port.serves_no(_WHAT) from error
