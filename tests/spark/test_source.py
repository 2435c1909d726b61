"""The source's ranges: every offset of every partition lies in exactly one micro-batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.spark
ENDS = st.lists(st.integers(0, 30), min_size=1, max_size=4)


@given(ENDS, st.integers(1, 9))
def test_micro_batches_cover_each_partition_without_gap_or_overlap(ends: list[int], most: int) -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from oncelog.pipeline.source.lines import OncelogStreamReader

    stable = {str(partition): end for partition, end in enumerate(ends)}

    class Reader(OncelogStreamReader):
        def stable_offsets(self) -> dict[str, int]:
            return stable

    reader = Reader({"bootstrap": "unused", "topic": "topic", "max_per_partition": str(most)})
    position = dict.fromkeys(stable, 0)
    seen: list[tuple[int, int]] = []
    while position != stable:
        end = reader.latestOffset(position, ReadAllAvailable())
        ranges = reader.partitions(position, end)
        assert ranges, "a batch that moves nothing never ends"
        assert all(0 < each.end - each.start <= most for each in ranges)
        seen += [(each.partition, offset) for each in ranges for offset in range(each.start, each.end)]
        position = end
    assert sorted(seen) == [(partition, offset) for partition, end in enumerate(ends) for offset in range(end)]
