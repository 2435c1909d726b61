"""A fenced producer names the cause of the fence, as far as its coordinator knows it."""

from itertools import product

import pytest

from oncelog import Admin, NewTopic, Producer, ProducerFenced
from tests.conftest import Start
from tests.daemon.test_spark_sink import with_faults

VERSIONS = pytest.mark.parametrize("version", [1, 2], ids=["first-protocol", "second-protocol"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("by", "is_late", "version"), list(product(("instance", "operator"), (False, True), (1, 2))))
async def test_an_instance_and_an_operator_are_distinguished(
    start_daemon: Start, by: str, is_late: bool, version: int
) -> None:
    daemon = start_daemon(f"oncelog.feature.transaction.version={version}")
    async with Admin(daemon.bootstrap) as admin, Producer(daemon.bootstrap, transactional_id="id") as producer:
        await admin.create_topics(NewTopic("topic", 1, 1))
        with pytest.raises(ProducerFenced) as fenced:
            async with producer.transaction() as transaction:
                await transaction.send("topic", b"value")
                if by == "operator":
                    await admin.fence_producer("id")
                else:
                    async with Producer(daemon.bootstrap, transactional_id="id"):
                        pass  # opening it is enough
                if is_late:
                    await transaction.send("topic", b"value")
        assert fenced.value.by == by
        assert {"operator": "an operator", "instance": "another producer"}[by] in str(fenced.value)
        with pytest.raises(ProducerFenced):
            async with producer.transaction():
                pass


@VERSIONS
async def test_a_timeout_is_distinguished_from_both(start_daemon: Start, version: int) -> None:
    daemon, faults = with_faults(start_daemon, f"oncelog.feature.transaction.version={version}")
    async with Producer(daemon.bootstrap, transactional_id="id", transaction_timeout_ms=1) as producer:
        with pytest.raises(ProducerFenced) as fenced:
            async with producer.transaction() as transaction:
                await transaction.send("topic", b"value")
                faults.advance_time(100_000)
        assert (fenced.value.by, fenced.value.hint[:18]) == ("timeout", "make shorter ones,")
        assert str(fenced.value).startswith("the transaction was open for too long: ")


@VERSIONS
async def test_a_producer_that_comes_after_an_operators_fence_has_its_own_timeout(
    start_daemon: Start, version: int
) -> None:
    daemon = start_daemon(f"oncelog.feature.transaction.version={version}")
    async with Admin(daemon.bootstrap) as admin:
        await admin.fence_producer("id")
        async with Producer(daemon.bootstrap, transactional_id="id", transaction_timeout_ms=7_000) as producer:
            async with producer.transaction() as transaction:
                await transaction.send("topic", b"value")
        assert (await admin.describe_transaction("id")).timeout_ms == 7_000
