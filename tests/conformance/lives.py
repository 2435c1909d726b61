"""A broker that a conversation may stop and start again: ours, and Apache Kafka."""

from collections.abc import Callable

from oncelog.protocol.message import Message
from tests.clients.wire import WireBroker, WireReply
from tests.fakes.broker import Reply, VirtualBroker
from tests.support.kafka.server import Kafka

_FILE = "{topic}-{partition}/leader-epoch-checkpoint"


class OurLives:
    def __init__(self) -> None:
        self._broker = VirtualBroker()
        self.time = self._broker.time

    def send(self, request: Message, version: int, *, client_id: str = "client") -> Reply:
        return self._broker.send(request, version, client_id=client_id)

    def let_pass(self, delay_ms: int) -> None:
        self._broker.let_pass(delay_ms)

    def restart(self) -> None:
        problem = self._broker.broker.logs.close()
        if problem is not None:
            raise problem
        self.kill()

    def kill(self) -> None:
        self._broker = self._broker.killed()

    def epoch_file(self, topic: str, partition: int) -> str | None:
        file = self._broker.disk.files.get(_FILE.format(topic=topic, partition=partition))
        return None if file is None else bytes(file.data).decode()


class KafkaLives:
    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._wire = WireBroker(kafka.bootstrap)

    def send(self, request: Message, version: int, *, client_id: str = "client") -> WireReply:
        return self._wire.send(request, version, client_id=client_id)

    def let_pass(self, delay_ms: int) -> None:
        self._wire.let_pass(delay_ms)

    def restart(self) -> None:
        self._next(self._kafka.end)

    def kill(self) -> None:
        self._next(self._kafka.stop)

    def epoch_file(self, topic: str, partition: int) -> str | None:
        return self._kafka.read(_FILE.format(topic=topic, partition=partition))

    def close(self) -> None:
        self._wire.close()

    def _next(self, stop: Callable[[], None]) -> None:
        self._wire.close()
        stop()
        self._kafka.start()
        self._wire = WireBroker(self._kafka.bootstrap)
