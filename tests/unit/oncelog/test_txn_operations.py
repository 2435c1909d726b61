"""Transactions that are listed and then described, while they come and go."""

from typing import cast

import pytest

from oncelog.client.admin.client import Admin
from oncelog.client.admin.descriptions import TransactionDescription
from oncelog.client.values.errors import KafkaError
from oncelog.protocol.errors import ErrorCode
from oncelog.tools.txn.operations import describe_all


class OneIsThere:
    """Describes `there`; for every other id the answer is an error."""

    def __init__(self, code: ErrorCode) -> None:
        self._code = code

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        if transactional_id != "there":
            raise KafkaError(code=self._code)
        return TransactionDescription(transactional_id, "Ongoing", 1, 0, 60_000, 1, ())


async def test_an_id_that_expires_after_it_was_listed_is_left_out() -> None:
    admin = cast(Admin, OneIsThere(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
    assert [each.transactional_id for each in await describe_all(admin, ("gone", "there"))] == ["there"]


async def test_an_id_whose_coordinator_does_not_answer_is_not_taken_for_expired() -> None:
    admin = cast(Admin, OneIsThere(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
        await describe_all(admin, ("there", "gone"))
