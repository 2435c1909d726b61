"""How the descriptors of the process are shared out."""

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.system.limits import share_descriptors


@given(st.integers(16, 10_000_000))
def test_logs_have_descriptors_that_connections_never_take(limit: int) -> None:
    shares = share_descriptors(limit)
    assert shares.connections is not None
    assert shares.files >= 4
    assert shares.connections >= limit // 2
    assert limit - shares.connections - shares.files >= 4


def test_without_a_limit_connections_have_none() -> None:
    assert share_descriptors(-1).connections is None
