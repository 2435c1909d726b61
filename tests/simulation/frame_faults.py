"""Faults to plant in what opens a batch: each loses records of one in several frames, and the simulation must notice.

Owns: the list.
"""

from collections.abc import Iterator

import pytest

from oncelog.broker.log import recompression
from oncelog.broker.log.batch_validation import CheckedBody
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.storage.compaction.offset_map import OffsetMap
from oncelog.protocol.records import compression
from oncelog.protocol.records.batch import BatchHeader, uncompressed
from oncelog.protocol.records.record import Record
from tests.simulation.log_faults import Plant


def end_with_the_first_member(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compression, "_MEMBER_MAGIC", b"never")


def end_with_the_first_frame(patch: pytest.MonkeyPatch) -> None:
    every = compression._unzstd

    def first_only(body: bytes | memoryview, limit: int) -> Iterator[bytes]:
        view = memoryview(body)
        return every(view[: compression._zstd_frame_bytes(compression._zstd(), view)], limit)

    patch.setattr(compression, "_unzstd", first_only)


def encode_again_without_counting(patch: pytest.MonkeyPatch) -> None:
    """Re-encode batches without counting their records, as a release did: with either fault above, half of a batch is
    acknowledged and lost.
    """

    def unchecked(batch: memoryview, header: BatchHeader, config: LogConfig, wall_ms: int) -> CheckedBody:
        return CheckedBody(memoryview(uncompressed(header, batch)))

    patch.setattr(recompression, "checked_at_once", unchecked)


def encode_half_of_a_batch_again(patch: pytest.MonkeyPatch) -> None:
    encode_again_without_counting(patch)
    end_with_the_first_member(patch)


def compact_half_of_a_batch(patch: pytest.MonkeyPatch) -> None:
    decode = OffsetMap.decode

    def half(self: OffsetMap, header: BatchHeader, batch: memoryview) -> list[Record] | None:
        records = decode(self, header, batch) or []
        return records[: len(records) // 2 + 1]

    patch.setattr(OffsetMap, "decode", half)


PLANTS: tuple[Plant, ...] = (
    end_with_the_first_member,
    end_with_the_first_frame,
    encode_again_without_counting,
    encode_half_of_a_batch_again,
    compact_half_of_a_batch,
)
