"""How the descriptors of the process are shared out, and how many processors it counts on."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.system.limits import processor_count, share_descriptors


@given(st.integers(16, 10_000_000))
def test_logs_have_descriptors_that_connections_never_take(limit: int) -> None:
    shares = share_descriptors(limit)
    assert shares.connections is not None
    assert shares.files >= 4
    assert shares.connections >= limit // 2
    assert limit - shares.connections - shares.files >= 4


def test_without_a_limit_connections_have_none() -> None:
    assert share_descriptors(-1).connections is None


@pytest.mark.parametrize(("quota", "expected"), [("50000 100000", 1), ("100000 100000", 1), ("max 100000", None)])
def test_a_quota_of_processors_counts(tmp_path: Path, quota: str, expected: int | None) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(f"{quota}\n")
    assert processor_count(str(file)) == (expected or processor_count(str(tmp_path / "none")))
