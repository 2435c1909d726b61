"""Whatever is administered in whatever order, and however often the broker is killed, it ends as a plain dict would."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.protocol.errors import ErrorCode
from tests.clients.administration import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    change,
    create,
    delete,
    described,
    grow,
    partition_count,
    produce,
)
from tests.fakes.broker import VirtualBroker
from tests.support.samples import examples

NAMES = st.sampled_from(["a", "b.c", "b_c"])
VALUES = st.one_of(st.none(), st.integers(1, 3).map(lambda number: str(number * 1_000)))
STEPS = st.one_of(
    st.tuples(st.just("create"), NAMES, st.integers(1, 3)),
    st.tuples(st.just("grow"), NAMES, st.integers(1, 5)),
    st.tuples(st.just("delete"), NAMES, st.none()),
    st.tuples(st.just("produce"), NAMES, st.none()),
    st.tuples(st.just("topic"), NAMES, VALUES),
    st.tuples(st.just("broker"), st.sampled_from(["", "1"]), VALUES),
    st.tuples(st.just("group"), st.sampled_from(["g", "h"]), VALUES),
    st.tuples(st.just("kill"), st.none(), st.none()),
)


@dataclass
class Model:
    """The topics and settings that administration should result in, in dicts."""

    partitions: dict[str, int] = field(default_factory=dict)
    retention: dict[str, str] = field(default_factory=dict)
    brokers: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)

    def may_create(self, name: str) -> bool:
        return not any(known.replace(".", "_") == name.replace(".", "_") for known in self.partitions)

    def retention_of(self, name: str) -> str:
        inherited = self.brokers.get("1", self.brokers.get("", "604800000"))
        return self.retention.get(name, inherited)


def put(values: dict[str, str], name: str, value: str | None) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value


def step(broker: VirtualBroker, model: Model, kind: str, name: str, value: int | str | None) -> bool:
    """Ask for it and do it to the model; whether both agree that it may be done."""
    known = name in model.partitions
    if kind == "create":
        allowed = model.may_create(name)
        done = create(broker, name, int(value or 0)) is ErrorCode.NONE
        if allowed:
            model.partitions[name] = int(value or 0)
    elif kind == "grow":
        allowed = known and int(value or 0) > model.partitions[name]
        done = grow(broker, name, int(value or 0)) is ErrorCode.NONE
        if allowed:
            model.partitions[name] = int(value or 0)
    elif kind == "delete":
        allowed = known
        done = delete(broker, name) is ErrorCode.NONE
        model.partitions.pop(name, None)
        model.retention.pop(name, None)
    elif kind == "produce":
        allowed = known
        done = produce(broker, name, partition=max(0, model.partitions.get(name, 1) - 1)) is ErrorCode.NONE
    else:
        return step_config(broker, model, kind, name, None if value is None else str(value))
    return allowed == done


def step_config(broker: VirtualBroker, model: Model, kind: str, name: str, value: str | None) -> bool:
    if kind == "topic":
        allowed = name in model.partitions
        code = change(broker, TOPIC_RESOURCE, name, retention_ms=value)
        if allowed:
            put(model.retention, name, value)
    elif kind == "broker":
        allowed = True
        code = change(broker, BROKER_RESOURCE, name, log_retention_ms=value)
        put(model.brokers, name, value)
    else:
        allowed = True
        value = None if value is None else str(45_000 + int(value))
        code = change(broker, GROUP_RESOURCE, name, consumer_session_timeout_ms=value)
        put(model.groups, name, value)
    return allowed == (code is ErrorCode.NONE)


# With the default no snapshot of the metadata is taken here; with the others one now and then, and after every change.
@pytest.mark.sampled(3)
@pytest.mark.parametrize("bytes_between_snapshots", [1, 1_000, 1_048_576])
@settings(max_examples=examples(50))
@given(steps=st.lists(STEPS, min_size=15, max_size=40))
def test_a_life_of_administration_ends_as_its_model(
    bytes_between_snapshots: int, steps: list[tuple[str, str, int | str | None]]
) -> None:
    broker = VirtualBroker(f"metadata.log.max.record.bytes.between.snapshots={bytes_between_snapshots}")
    model = Model()
    for kind, name, value in [*steps, ("kill", "", None)]:
        if kind == "kill":
            broker = broker.killed()
        else:
            assert step(broker, model, kind, name, value)
        for topic in ("a", "b.c", "b_c"):
            assert partition_count(broker, topic) == model.partitions.get(topic, 0)
        for topic in model.partitions:
            expected = model.retention_of(topic)
            assert described(broker, TOPIC_RESOURCE, topic)["retention.ms"] == expected
            log = broker.broker.topics.find_partition(topic, 0)
            assert log is not None and log.config.retention_ms == int(expected)
    for group in ("g", "h"):
        shown = described(broker, GROUP_RESOURCE, group)["consumer.session.timeout.ms"]
        assert shown == model.groups.get(group, "45000")
