"""A broker whose segments can be counted, and in which time brings retention and compaction: ours, and Apache Kafka."""

from oncelog.broker.storage.local.local_log import LocalLog
from tests.clients.wire import WireBroker
from tests.fakes.broker import VirtualBroker
from tests.support.kafka.server import Kafka

_STEP_MS = 100


class OurSegments(VirtualBroker):
    def let_pass(self, delay_ms: int) -> None:
        for _ in range(0, delay_ms, _STEP_MS):
            self.time.advance(_STEP_MS)
            self.broker.logs.step()
            self.time.settle()

    def segments(self, topic: str) -> list[int]:
        log = self.broker.logs.get(topic, 0)
        assert log is not None
        if isinstance(log.stored, LocalLog):
            return _base_offsets(self.disk.list_dir(f"{topic}-0"))
        return [segment.base_offset for segment in log.stored.segments]  # type: ignore[attr-defined]


class KafkaSegments(WireBroker):
    def __init__(self, kafka: Kafka) -> None:
        super().__init__(kafka.bootstrap)
        self._kafka = kafka

    def segments(self, topic: str) -> list[int]:
        return _base_offsets(self._kafka.names(f"{topic}-0"))


def _base_offsets(names: list[str]) -> list[int]:
    return sorted(int(name.removesuffix(".log")) for name in names if name.endswith(".log"))
