"""Spark's sink, without Spark, against Apache Kafka itself: a driver dies around each step, or two of them run."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.client import ProducerFenced
from oncelog.pipeline.sink.marker import MARKER_TOPIC, ensure_topic, read_markers
from oncelog.pipeline.sink.publish import Moment, Outcome, Step, publish
from tests.support.kafka.server import Kafka
from tests.support.spark.driver_death import Death, DriverDied, deaths
from tests.support.spark.query import Query, check_report_of_a_death
from tests.support.spark.sink_batches import (
    OUTPUTS,
    ROWS,
    check,
    check_group,
    group_of,
    make_topics,
    outputs_of,
    settings,
    wanted,
)

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    running = Kafka(tmp_path_factory.mktemp("kafka"))
    yield running
    running.stop()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("death", deaths(len(OUTPUTS), commits_group=True), ids=repr)
def test_a_driver_that_dies_anywhere_publishes_each_batch_once(kafka: Kafka, death: Death) -> None:
    prefix = f"death-{repr(death).replace(' ', '-')}-"
    asyncio.run(make_topics(kafka.bootstrap, prefix))
    sink = settings(kafka.bootstrap, prefix)
    assert asyncio.run(publish(sink, wanted(0), outputs_of(0, prefix), group_offsets=group_of(0, prefix))).published
    with pytest.raises(DriverDied):
        death.run(publish(sink, wanted(1), outputs_of(1, prefix), death.on_step, group_of(1, prefix)))
    outputs = outputs_of(1, prefix, task_count=5)
    again = asyncio.run(publish(sink, wanted(1), outputs, group_offsets=group_of(1, prefix)))
    assert again.published is not (death.step is Step.END and death.moment == "after")
    assert again.outputs == dict.fromkeys(OUTPUTS, ROWS)
    asyncio.run(check(kafka.bootstrap, prefix, 2))
    asyncio.run(check_group(kafka.bootstrap, prefix, 2))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("death", deaths(len(OUTPUTS)), ids=repr)
def test_a_report_tells_what_kafka_knows_of_each_attempt(kafka: Kafka, tmp_path: Path, death: Death) -> None:
    check_report_of_a_death(Query(kafka.bootstrap, tmp_path / "checkpoint"), death)


async def test_of_two_drivers_one_publishes(kafka: Kafka) -> None:
    await make_topics(kafka.bootstrap, "two-")
    sink = settings(kafka.bootstrap, "two-")
    second: list[Outcome] = []

    async def on_step(step: Step, moment: Moment) -> None:
        if (step, moment) == (Step.END, "before"):
            second.append(await publish(sink, wanted(0), outputs_of(0, "two-")))

    with pytest.raises(ProducerFenced):
        await publish(sink, wanted(0), outputs_of(0, "two-"), on_step)
    assert second[0].published
    await check(kafka.bootstrap, "two-", 1)


async def test_kafka_takes_the_settings_of_the_marker_topic(kafka: Kafka) -> None:
    await ensure_topic(kafka.bootstrap, MARKER_TOPIC)
    assert (await read_markers(kafka.bootstrap, MARKER_TOPIC))["sink-two-"].batch_id == 0
