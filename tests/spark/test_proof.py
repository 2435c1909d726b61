"""A few seeds of `make proof WHAT=spark`: our sinks lose and double nothing, and a plain one is seen to."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Start
from tests.proofs.nemesis import Broker
from tests.proofs.spark import kills
from tests.proofs.spark.faults import FAULTS
from tests.proofs.spark.page import Found, compare, page
from tests.proofs.spark.scene import FORMAT, NAIVE, OURS, Oncelog
from tests.proofs.spark.session import broker_in, run_seed
from tests.spark.scenes import expected

pytestmark = pytest.mark.spark
MET = [(fault, sink) for fault, each in FAULTS.items() for sink in (OURS, FORMAT) if sink in each.sinks]
MET_ON_KAFKA = [(fault, sink) for fault, each in FAULTS.items() for sink in (OURS, FORMAT) if sink in each.on_kafka]


def met(pairs: list[tuple[str, str]]) -> list[Any]:
    """Parameters for each pair of a fault and a sink; pairs that take minutes are marked slow."""
    slow = [pytest.mark.slow]
    return [pytest.param(fault, sink, marks=slow if FAULTS[fault].rounds > 1 else ()) for fault, sink in pairs]


@pytest.fixture
def broker(start_daemon: Start) -> Oncelog:
    return Oncelog(start_daemon("oncelog.admin.listen=127.0.0.1:0"))


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker_in(tmp_path_factory.mktemp("proof"), "kafka") as running:
        yield running


@pytest.mark.parametrize(("fault", "sink"), met(MET))
def test_a_fault_loses_and_doubles_nothing(spark: Any, broker: Oncelog, fault: str, sink: str) -> None:
    found = run_seed(spark, broker, 1, fault, sink)
    assert (found.lost, found.doubled, found.refused) == (0, 0, "old copy" in fault)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("fault", "sink"), met(MET_ON_KAFKA))
def test_a_fault_loses_and_doubles_nothing_on_apache_kafka(spark: Any, kafka: Broker, fault: str, sink: str) -> None:
    found = run_seed(spark, kafka, 1, fault, sink)
    assert (found.lost, found.doubled, found.refused) == (0, 0, "old copy" in fault)


def test_the_same_faults_double_rows_in_a_plain_sink(spark: Any, broker: Oncelog) -> None:
    """The comparison can fail: a plain sink doubles rows."""
    assert run_seed(spark, broker, 0, next(iter(FAULTS)), NAIVE).doubled > 0


@pytest.mark.slow
@pytest.mark.parametrize("sink", [OURS, FORMAT])
def test_drivers_that_are_killed_one_after_the_other_publish_each_batch_once(
    broker: Oncelog, tmp_path: Path, sink: str
) -> None:
    pytest.importorskip("pyspark")
    found = list(kills.Chain(broker, tmp_path / "chain", sink, 2).run())
    assert [(each.lost, each.doubled) for each in found] == [(0, 0)] * 2


def test_every_output_is_compared() -> None:
    """A row that the topic has and the table has not is lost; one too many in either is doubled."""
    assert compare([expected(3), expected(2) + expected(1)], expected(3)) == (8, 8)
    assert compare([expected(3), expected(2)], expected(3), noted=expected(2)) == (0, 0)


def test_the_page_adds_up_what_was_found() -> None:
    """Its first lines say when a sink of ours has failed."""
    found = [Found("session", "oncelog", "fault", sink, seed, seed, 0, 1) for sink in (OURS, NAIVE) for seed in (1, 2)]
    text = page(found)
    assert "**2 seeds on the two sinks of oncelog: 3 rows lost, 0 doubled**, in 2 seeds; 2 refused" in text
    assert "| fault | 2: 3 lost, 0 doubled, 2 refused | – | 2: 3 lost, 0 doubled, 2 refused | – |" in text
