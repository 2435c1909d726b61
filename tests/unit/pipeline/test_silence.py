"""For how long the source and the sink wait for a broker: as the options say, whether it is silent or refuses."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from oncelog.client import AdminSettings, KafkaError
from oncelog.pipeline.options import Options, parse, reach_of
from oncelog.pipeline.sink.marker import MARKER_TOPIC, ensure_topic, read_marker
from oncelog.pipeline.sink.plan import sink_settings
from oncelog.pipeline.sink.publish import publish
from tests.fakes.scripted_answers import OF_A_PRODUCER
from tests.fakes.virtual_loop import ScriptedBroker, virtually

HOST = "host:1"
SOON_S = 1.0


def writing(**more: str) -> Options:
    options = {f"kafka.{name.replace('_', '.')}": value for name, value in more.items()}
    return parse({"kafka.bootstrap.servers": HOST, "topic": "topic", **options}, "write")


def reading(**more: str) -> Options:
    options = {f"kafka.{name.replace('_', '.')}": value for name, value in more.items()}
    return parse({"kafka.bootstrap.servers": HOST, "subscribe": "topic", **options}, "read")


Work = Callable[[Options], Coroutine[Any, Any, Any]]


def reach(options: Options) -> Any:
    return reach_of(sink_settings(options, "sink").producer_options())


OF_THE_SINK: dict[str, Work] = {
    "publish": lambda options: publish(sink_settings(options, "sink"), None, []),
    "ensure the topic of markers": lambda options: ensure_topic(HOST, MARKER_TOPIC, reach(options)),
    "read the marker": lambda options: read_marker(HOST, MARKER_TOPIC, "sink", reach=reach(options)),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("is_silent", [True, False], ids=["silent", "refusing"])
@pytest.mark.parametrize(
    ("options", "expected_s"), [({}, 120), ({"max_block_ms": "5000"}, 5), ({"max_block_ms": "150000"}, 150)]
)
@pytest.mark.parametrize("work", OF_THE_SINK.values(), ids=OF_THE_SINK)
@virtually
async def test_the_sink_waits_for_a_broker_for_max_block_ms(
    work: Work, options: dict[str, str], expected_s: float, is_silent: bool
) -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    (broker.silent if is_silent else broker.refusing).add("host")
    with pytest.raises(KafkaError):
        await work(writing(**options))
    assert expected_s - SOON_S < asyncio.get_running_loop().time() < expected_s + SOON_S


def test_whatever_else_asks_the_brokers_waits_as_the_options_say() -> None:
    default_ms = AdminSettings().default_api_timeout_ms
    for options, expected_ms in (
        (reading(), default_ms),
        (reading(default_api_timeout_ms="5000"), 5_000),
        (reading(default_api_timeout_ms="300000"), 300_000),
        (writing(max_block_ms="300000"), 300_000),
    ):
        found = reach_of(options.client)
        assert found["default_api_timeout_ms"] == found["bootstrap_timeout_ms"] == expected_ms
    assert reach_of(reading(request_timeout_ms="7000").client)["request_timeout_ms"] == 7_000
    assert reach_of(writing(request_timeout_ms="7000").client)["request_timeout_ms"] == 7_000
