"""The values that options of the clients choose from."""

from typing import Literal

Acks = Literal["all", -1, 0, 1]
"""When the broker responds: "all" (-1) once every in-sync replica has the record, 1 once the leader has, 0 never."""
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
"""The codec of a producer's batches."""
OffsetReset = Literal["earliest", "latest", "error"]
"""Where to start without a valid committed offset; "error" raises NoOffsetForPartition."""
DeliveryMode = Literal["at_most_once", "at_least_once", "exactly_once"]
"""What a fault may do to a record on its way through a consumer and a producer: lose it, double it, or neither."""
GroupProtocol = Literal["classic", "consumer"]
"""How a group assigns partitions: classic is done by a member, consumer by the coordinator (KIP-848)."""
AcknowledgementMode = Literal["implicit", "explicit"]
"""Who acknowledges records: the next poll or commit, all as accepted, or the program, each by itself."""
AcquireMode = Literal["batch_optimized", "record_limit"]
"""What a broker acquires for a member: whole batches, also ahead, or no more records than it asked for (KIP-1206)."""
