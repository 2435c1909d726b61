"""The faults of the warm session, as a table: each runs a scene's query to its end, through one fault."""

import asyncio
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka.admin import AdminClient, NewPartitions

from oncelog.faults import Action, ApiKey, Point, Rule, Selector
from oncelog.pipeline.sink import Step
from oncelog.pipeline.sink.checkpoint import Checkpoint
from oncelog.pipeline.sink.plan import sink_id_of, wanted_marker
from oncelog.pipeline.sink.publish import Moment, SinkSettings, publish
from oncelog.pipeline.sink.spool import SpoolWriter
from oncelog.pipeline.sink.table_files import TableStep
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.proofs.spark.scene import FORMAT, HIT, OURS, SINKS, Scene
from tests.spark.scenes import BATCHES, ROWS
from tests.support.processes.processes import connected_to
from tests.support.spark.driver_death import Death, deaths, deaths_with_table

MONTH_MS = 30 * 86_400_000
TEN_MINUTES_MS = 600_000
"""Longer than the transaction's timeout."""
_BOTH = (OURS, FORMAT)
_WAIT_MS = 25_000
_COMMIT_APIS = (ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE, ApiKey.END_TXN)
"""Each batch of ours sends all of them."""


def dies_before_spark_notes_the_batch(scene: Scene) -> None:
    scene.run()
    scene.forget_last_commit()
    scene.run()


def dies_and_the_batch_is_split_differently(scene: Scene) -> None:
    scene.run()
    scene.forget_last_commit()
    scene.tasks = scene.random.choice((1, 3, 5))
    scene.run()


def dies_and_the_topic_has_more_partitions(scene: Scene) -> None:
    scene.run()
    scene.forget_last_commit()
    more = NewPartitions(scene.topic, scene.random.choice((4, 5, 7)))
    admin = AdminClient({"bootstrap.servers": scene.address.bootstrap})
    admin.create_partitions([more])[scene.topic].result(30)
    scene.run()


def dies_inside_the_batch(scene: Scene) -> None:
    """Ours before or after any step; the others when half of the rows are written."""
    if scene.sink == OURS:
        death = scene.random.choice(deaths_with_table())
        scene.harness = {"on_step": death.on_step, "run": death.run}
    scene.interrupts = True
    scene.run_expecting_the_end("DriverDied", "Interrupted", "interrupted")
    scene.tasks = scene.random.choice((1, 2, 3))
    scene.run()


def the_process_that_commits_is_killed(scene: Scene) -> None:
    """kill -9 while one of its requests is on the way, which arrives before or after the next start."""
    faults, random = scene.oncelog.faults, scene.random
    api, point = random.choice(_COMMIT_APIS), random.choice((Point.REQUEST, Point.ANSWER))
    held = faults.plant(Rule(point, Action.HOLD, Selector(api=api), nth=random.randrange(1, BATCHES + 1)))
    query = scene.start()
    assert faults.wait_fired(held, _WAIT_MS).fired_count == 1
    (committing,) = connected_to(int(scene.address.bootstrap.rpartition(":")[2]), "python")
    os.kill(committing, signal.SIGKILL)
    _fails(query, "STREAM_FAILED")
    if random.random() < 0.5:
        faults.release(held)
        scene.run()
    else:
        scene.run()
        faults.remove(held)


def an_old_checkpoint_is_restored(scene: Scene) -> None:
    first = scene.random.randrange(1, BATCHES)
    source, old = scene.directory / "in", scene.directory / "old"
    later = [source / f"{batch}.json" for batch in range(first, BATCHES)]
    for path in later:
        path.rename(scene.directory / path.name)
    scene.run()
    shutil.copytree(scene.checkpoint, old)
    for path in later:
        (scene.directory / path.name).rename(path)
    scene.run()
    shutil.rmtree(scene.checkpoint)
    old.rename(scene.checkpoint)
    scene.run()


def a_month_passes(scene: Scene) -> None:
    scene.run()
    scene.oncelog.faults.advance_time(MONTH_MS)
    scene.forget_last_commit()
    scene.run()


def ten_minutes_pass_in_a_step(scene: Scene) -> None:
    """More than the transaction's timeout: the broker aborts it, or has none yet."""
    if scene.sink == OURS:
        point = scene.random.choice(deaths_with_table())
        scene.harness = {"on_step": _once(point, lambda: scene.oncelog.faults.advance_time(TEN_MINUTES_MS))}
        _run_and_perhaps_fail(scene)
        return
    with _held(scene, ApiKey.END_TXN) as query:
        scene.oncelog.faults.advance_time(TEN_MINUTES_MS)
    _fails(query, "STREAM_FAILED")
    scene.run()


def a_second_driver_publishes_the_batch_meanwhile(scene: Scene) -> None:
    if scene.sink == OURS:
        on_step = _once(scene.random.choice(deaths_with_table()), lambda: asyncio.run(_publish_as_second_driver(scene)))
        scene.harness = {"on_step": on_step}
        _run_and_perhaps_fail(scene)
        return
    with _held(scene, scene.random.choice((ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN))) as query:
        asyncio.run(_publish_as_second_driver(scene))
    try:
        query.awaitTermination()
    except Exception as error:
        if "STREAM_FAILED" not in str(error):
            raise
    scene.run()


def the_broker_is_away(scene: Scene, away_s: float) -> None:
    """kill -9 around a step of ours; elsewhere while it handles a request, or before it answers."""
    if scene.sink == OURS:
        point = scene.random.choice([each for each in deaths(1) if (each.step, each.moment) != (Step.END, "after")])

        async def on_step(step: Step | TableStep, moment: Moment) -> None:
            if (step, moment) == (point.step, point.moment):
                scene.broker.kill()
                await asyncio.to_thread(threading.Event().wait, away_s)
                await asyncio.to_thread(scene.broker.start)

        scene.harness = {"on_step": on_step}
        scene.run()
        return
    with scene.oncelog.crashing(_rule(scene, Action.CRASH), away_s):
        scene.run()


def a_request_or_its_answer_is_lost(scene: Scene) -> None:
    planted = scene.oncelog.faults.plant(_rule(scene, Action.DROP))
    scene.run()
    assert scene.oncelog.faults.remove(planted).fired_count == 1


@dataclass(frozen=True, slots=True)
class Fault:
    """`rounds`: it is in one of so many rounds only, because it takes long."""

    apply: Callable[[Scene], None]
    sinks: tuple[str, ...]
    on_kafka: tuple[str, ...] = ()
    """The sinks that it can meet with Apache Kafka as the broker, whose requests and clock cannot be held."""
    rounds: int = 1


_BEFORE = "the driver dies before Spark notes the batch"
FAULTS = {
    _BEFORE: Fault(dies_before_spark_notes_the_batch, SINKS, SINKS),
    f"{_BEFORE}, which is then split differently": Fault(dies_and_the_batch_is_split_differently, SINKS, SINKS),
    f"{_BEFORE}, and the topic gets more partitions": Fault(dies_and_the_topic_has_more_partitions, SINKS, SINKS),
    f"{_BEFORE}, and a month passes": Fault(a_month_passes, SINKS),
    "the driver dies inside the batch": Fault(dies_inside_the_batch, SINKS, SINKS),
    "the process that commits is killed (-9) at a request": Fault(the_process_that_commits_is_killed, (FORMAT,)),
    "an old copy of the checkpoint is restored": Fault(an_old_checkpoint_is_restored, SINKS, SINKS),
    "a second driver publishes the batch meanwhile": Fault(
        a_second_driver_publishes_the_batch_meanwhile, _BOTH, (OURS,)
    ),
    "ten minutes pass during the commit": Fault(ten_minutes_pass_in_a_step, _BOTH),
    "a request or its answer is lost": Fault(a_request_or_its_answer_is_lost, SINKS),
    "the broker is killed, and back at once": Fault(partial(the_broker_is_away, away_s=0), SINKS, (OURS,)),
    "the broker is killed, and back after 2 s": Fault(partial(the_broker_is_away, away_s=2), SINKS, (OURS,)),
    "the broker is killed, and back after 40 s": Fault(partial(the_broker_is_away, away_s=40), SINKS, (OURS,), 8),
}


def _rule(scene: Scene, action: Action) -> Rule:
    """Returns a rule that acts at one of the requests that every query of this sink sends."""
    api = scene.random.choice(_COMMIT_APIS if scene.sink in _BOTH else (ApiKey.PRODUCE,))
    point = scene.random.choice((Point.REQUEST, Point.ANSWER))
    return Rule(point, action, Selector(api=api), nth=scene.random.randrange(1, BATCHES + 1))


def _once(point: Death, work: Callable[[], object]) -> Any:
    """An observer that does this at the first time that the point is reached, while the driver waits."""
    done: list[bool] = []

    async def on_step(step: Step | TableStep, moment: Moment) -> None:
        if (step, moment) == (point.step, point.moment) and not done:
            done.append(True)
            await asyncio.to_thread(work)

    return on_step


@contextmanager
def _held(scene: Scene, api: ApiKey) -> Iterator[Any]:
    """The query, while this request of the batch that the fault meets is held: before it is handled, or its answer."""
    faults = scene.oncelog.faults
    point = scene.random.choice((Point.REQUEST, Point.ANSWER)) if api is ApiKey.INIT_PRODUCER_ID else Point.REQUEST
    held = faults.plant(Rule(point, Action.HOLD, Selector(api=api), nth=HIT + 1))
    query = scene.start()
    assert faults.wait_fired(held, _WAIT_MS).fired_count == 1
    yield query
    faults.remove(held)


def _fails(query: Any, word: str) -> None:
    try:
        query.awaitTermination()
    except Exception as error:
        if word not in str(error):
            raise
        return
    raise AssertionError("the fault ended nothing")


def _run_and_perhaps_fail(scene: Scene) -> None:
    """Whether the first driver fails depends on the step."""
    try:
        scene.run()
    except Exception as error:
        if not any(word in str(error) for word in ("FENCED", "INVALID_PRODUCER_EPOCH", "timed out")):
            raise
    scene.harness = {}
    scene.run()


async def _publish_as_second_driver(scene: Scene) -> None:
    checkpoint = Checkpoint(str(scene.checkpoint))
    writer = SpoolWriter(None)
    for row in range(ROWS):
        writer.add(scene.topic, 0, 1, encode_batch([Record(0, 1, None, f"{HIT}:{row}".encode())]))
    settings = SinkSettings(scene.address.bootstrap, sink_id_of(checkpoint.query_id()))
    await publish(settings, wanted_marker(checkpoint, HIT), [writer.finish(scene.topic)])
