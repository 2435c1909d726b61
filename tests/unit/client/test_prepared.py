"""The text of a prepared transaction is Apache Kafka's, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client import PreparedTxnState
from oncelog.client.values.errors import ConfigError


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1))
def test_what_is_kept_as_text_comes_back(producer_id: int, producer_epoch: int) -> None:
    state = PreparedTxnState(producer_id, producer_epoch)
    assert str(state) == f"{producer_id}:{producer_epoch}"
    assert PreparedTxnState.parse(str(state)) == state
    assert state.has_transaction


def test_no_transaction_is_an_empty_text() -> None:
    assert str(PreparedTxnState()) == ""
    assert PreparedTxnState.parse("") == PreparedTxnState()
    assert not PreparedTxnState().has_transaction


@pytest.mark.parametrize(
    "text", ["1", "1:", ":1", "-1:-1", "1:-1", "1:2:3", "a:1", "1:b", "1:32768", f"{2**63}:0", " 1:1", "1:1\n", "١:1"]
)
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        PreparedTxnState.parse(text)
