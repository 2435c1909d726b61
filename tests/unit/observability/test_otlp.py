"""OTLP: what a collector receives over HTTP, decoded by OpenTelemetry's own protobuf."""

import asyncio
import gzip
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from oncelog.broker.observability import otlp
from oncelog.broker.observability.catalogue import COUNTER, GAUGE, HISTOGRAM, Distribution, Family, Sample, Sampled
from oncelog.broker.observability.otlp import OtlpReporter
from tests.support.patience import PATIENCE_S

REQUESTS = Sampled(Family("requests", COUNTER, "Requests", "kafka.network:x"), [Sample((), 7)])
LAG = Sampled(
    Family("group_lag", GAUGE, "Lag", "", ("group", "topic")),
    [Sample(("readers", "orders"), 2), Sample(('x"} 1\nevil 2', "orders"), 3)],
)
SECONDS = Sampled(
    Family("request_seconds", HISTOGRAM, "Time", "", ("api",)),
    [Sample(("FETCH",), Distribution((0.1, 1), (4, 0, 1), 9.5))],
)
NOTHING_YET = Sampled(Family("series_left_out", GAUGE, "Left out", "", ("metric",)), [])


class _Collector:
    """A collector of one path, which answers `status`."""

    def __init__(self) -> None:
        self.status = 200
        self.received: Queue[tuple[str, ExportMetricsServiceRequest]] = Queue()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.received.put((self.path, ExportMetricsServiceRequest.FromString(body)))
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}/v1/metrics"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture
def collector() -> Iterator[_Collector]:
    running = _Collector()
    yield running
    running.close()


class _Log:
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, event: str, **_: Any) -> None:
        self.warnings.append(event)


async def _collect() -> list[Sampled]:
    return [REQUESTS, LAG, SECONDS, NOTHING_YET]


def _reporter(endpoint: str, log: Any, interval_ms: int = 3_600_000) -> OtlpReporter:
    return OtlpReporter(_collect, endpoint, interval_ms, {"service.name": "oncelog"}, log)


async def test_a_collector_receives_sums_gauges_and_histograms_with_their_labels(collector: _Collector) -> None:
    reporter = _reporter(collector.endpoint, _Log())
    reporter.start()
    await reporter.close()  # with a last report
    path, request = collector.received.get(timeout=PATIENCE_S)
    assert path == "/v1/metrics"
    (of_resource,) = request.resource_metrics
    assert ("service.name", "oncelog") in {
        (each.key, each.value.string_value) for each in of_resource.resource.attributes
    }
    (scope,) = of_resource.scope_metrics
    requests, lag, seconds = scope.metrics
    assert (requests.name, requests.unit) == ("oncelog_requests", "1")
    assert requests.description == "Requests. In Kafka: kafka.network:x."
    assert requests.sum.is_monotonic and requests.sum.aggregation_temporality == 2, "cumulative"
    (point,) = requests.sum.data_points
    assert point.as_int == 7 and 0 < point.start_time_unix_nano <= point.time_unix_nano
    found = {
        tuple(each.value.string_value for each in point.attributes): point.as_int for point in lag.gauge.data_points
    }
    assert found == {("readers", "orders"): 2, ('x"} 1\nevil 2', "orders"): 3}
    (of_fetch,) = seconds.histogram.data_points
    assert (list(of_fetch.explicit_bounds), list(of_fetch.bucket_counts)) == ([0.1, 1], [4, 0, 1])
    assert (of_fetch.count, of_fetch.sum, seconds.unit) == (5, 9.5, "s")


async def test_pushes_leave_by_themselves_at_the_interval(collector: _Collector) -> None:
    reporter = _reporter(collector.endpoint, _Log(), interval_ms=10)
    reporter.start()
    for _ in range(2):
        await asyncio.to_thread(collector.received.get, timeout=PATIENCE_S)
    await reporter.close()


async def test_a_collector_that_refuses_is_reported_once_until_it_takes_them_again(collector: _Collector) -> None:
    log = _Log()
    reporter = _reporter(collector.endpoint, log)
    for status, warnings in ((400, 1), (400, 1), (200, 1), (404, 2)):
        collector.status = status
        await reporter.report()
        assert len(log.warnings) == warnings


@pytest.mark.parametrize("answers", [False, True], ids=["away", "silent"])
async def test_a_stop_does_not_wait_for_a_collector_that_does_not_answer(
    answers: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The exporter does not write into the log either."""
    monkeypatch.setattr(otlp, "_LAST_REPORT_S", 0.05)
    monkeypatch.setattr(otlp, "_TIMEOUT_S", 5)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        if answers:
            listening.listen()
        reporter = _reporter(f"http://127.0.0.1:{listening.getsockname()[1]}/v1/metrics", _Log())
        reporter.start()
        async with asyncio.timeout(4):
            await reporter.close()
    assert capfd.readouterr() == ("", "")
