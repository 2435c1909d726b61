"""What the handlers of this folder serve, listed or not."""

from collections.abc import Iterator

import pytest

from tests.clients.producer import serving


@pytest.fixture
def every_version() -> Iterator[None]:
    with serving(
        init_producer_id=5,
        add_partitions_to_txn=5,
        add_offsets_to_txn=4,
        end_txn=5,
        write_txn_markers=2,
        list_transactions=1,
        describe_transactions=0,
        describe_producers=0,
    ):
        yield
