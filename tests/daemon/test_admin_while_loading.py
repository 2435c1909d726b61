"""An administrator asks a coordinator that still loads again, and gets what it knows once it does."""

import pytest

from oncelog import Admin, Producer
from oncelog.faults import Action, ApiKey, Point, Rule, Selector
from oncelog.protocol.errors import ErrorCode
from tests.conftest import Start
from tests.daemon.test_spark_sink import with_faults

CALLS = {
    ApiKey.LIST_TRANSACTIONS: lambda admin: admin.list_transactions(),
    ApiKey.LIST_GROUPS: lambda admin: admin.list_groups(),
    ApiKey.DESCRIBE_TRANSACTIONS: lambda admin: admin.describe_transaction("id"),
}


@pytest.mark.parametrize("api", CALLS, ids=lambda api: api.name)
async def test_a_coordinator_that_loads_is_asked_again(start_daemon: Start, api: ApiKey) -> None:
    daemon, faults = with_faults(start_daemon)
    async with Producer(daemon.bootstrap, transactional_id="id") as producer:
        await producer.init_transactions()
    async with Admin(daemon.bootstrap, retry_backoff_ms=1) as admin:
        before = await CALLS[api](admin)
        faults.plant(Rule(Point.REQUEST, Action.ERROR, Selector(api=api), error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        assert await CALLS[api](admin) == before
