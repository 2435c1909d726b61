"""The Java share consumer (KIP-932), unmodified: each scene of a share group ends here as it ends on Apache Kafka."""

from pathlib import Path

import pytest

from tests.support.foreign.interop import QUICK_GROUPS, SHARE_STATE_ON_ONE_NODE, java_source, run
from tests.support.kafka.server import ON_BOTH, serving

PROGRAM = Path(__file__).parent / "JavaShare.java"


@pytest.mark.sampled(2)
@pytest.mark.interop
@pytest.mark.parametrize("kind", ON_BOTH)
def test_the_java_share_consumer_sees_what_it_sees_on_apache_kafka(kind: str, tmp_path: Path) -> None:
    """Implicit and explicit acknowledgement, renewal, a lock that ran out, the limit of deliveries, transactions by
    isolation level, three members on one partition, DeleteRecords under acquired records, a topic made again."""
    with serving(kind, tmp_path, *SHARE_STATE_ON_ONE_NODE, *QUICK_GROUPS) as bootstrap:
        assert run(java_source(PROGRAM, bootstrap)).splitlines() == [
            "implicit: [firstx1] [secondx1] {0=accepted} {} [thirdx1] [thirdx2, fourthx1]",
            "explicit: [acceptedx1, releasedx1, rejectedx1, leftx1] not all acknowledged {0=accepted} "
            "[releasedx2, leftx2] {0=accepted, 1=accepted, 2=accepted, 3=accepted}",
            "renewed: [slowx1] lock of 1000 [slowx1] not taken [{0=accepted}] {0=accepted} [nextx1]",
            "late: [valuex1] [valuex2] {0=InvalidRecordStateException} {0=accepted}",
            "limit: [poisonx1] {0=accepted} [poisonx2] {0=accepted} [nextx1] 1, lag 0",
            "read_committed: [onex1, threex1, plainx1] 0, lag 1",
            "read_uncommitted: [onex1, abortedx1, threex1, plainx1, openx1] 0, lag 0",
            "shared: 100 accepted, 100 different, by 3",
            "deleted beneath: {0=accepted} [5x1] 5, lag 0",
            "made again: [oldx1, olderx1] [newx1] 0, lag 1",
            "record limit: [0x1, 1x1] [2x1, 3x1] [4x1]",
        ]
