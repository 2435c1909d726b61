"""A stand-in for testcontainers' KafkaContainer that starts no container.

Owns: its methods, so that a test changes an import and nothing else. Does not own: the broker (`broker`).
"""

from types import TracebackType
from typing import Any, NoReturn, Self

from oncelog.broker.config.settings import environment_key
from oncelog.testing.broker import Broker, Setting

_HOST = "127.0.0.1"
_PREFIX = "KAFKA_"
# What a container needs to find itself, and one process does not.
_NOT_OURS = {"listeners", "advertised.listeners", "listener.security.protocol.map", "process.roles", "node.id"}


class KafkaContainer:
    """Use it as `testcontainers.kafka.KafkaContainer`; what only a container can do raises NotImplementedError.

        with KafkaContainer() as kafka:
            producer = Producer({"bootstrap.servers": kafka.get_bootstrap_server()})
    """

    def __init__(self, image: str = "oncelog", port: int = 9093, **_: Any) -> None:
        """`image` and what else a container takes is accepted and not used."""
        self.image = image
        self.port = port
        self._config: dict[str, Setting] = {}
        self._broker: Broker | None = None

    def with_env(self, key: str, value: str) -> Self:
        """A setting by the variable of Kafka's image, such as KAFKA_NUM_PARTITIONS; others are ignored."""
        if key.startswith(_PREFIX):
            name = environment_key(key)
            if name not in _NOT_OURS and not name.startswith("controller."):
                self._config[name] = value
        return self

    def with_envs(self, **variables: str) -> Self:
        """Several at once."""
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def with_kraft(self) -> Self:
        """It is KRaft always."""
        return self

    def with_cluster_id(self, _: str) -> Self:
        """It has one of its own."""
        return self

    def with_name(self, _: str) -> Self:
        return self

    def with_exposed_ports(self, *_: int | str) -> Self:
        return self

    def with_bind_ports(self, _: int | str, host: int | None = None) -> Self:
        """Listen on this port of the machine."""
        self._bound_port = host or 0
        return self

    _bound_port = 0

    def with_kwargs(self, **_: Any) -> Self:
        return self

    def start(self, timeout: int = 30) -> Self:
        """Start the broker; `timeout` is not needed."""
        self._broker = Broker(config=self._config, port=self._bound_port).start()
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Stop it, and forget its data."""
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def get_bootstrap_server(self) -> str:
        """HOST:PORT for any Kafka client."""
        if self._broker is None:
            raise RuntimeError("the broker is not running: call start(), or use it in a `with` block")
        return self._broker.bootstrap_servers

    def get_container_host_ip(self) -> str:
        """This machine."""
        return _HOST

    def get_exposed_port(self, port: int) -> int:
        """The port of the broker, whichever is asked for."""
        return int(self.get_bootstrap_server().rpartition(":")[2])

    def get_logs(self) -> tuple[bytes, bytes]:
        """Empty: it logs to `logging.getLogger("oncelog.broker")`."""
        return b"", b""

    def exec(self, command: str | list[str]) -> NoReturn:
        """Raises NotImplementedError."""
        raise NotImplementedError("there is no container to run this in: run it here, or use `oncelog topic` and others")

    def get_wrapped_container(self) -> NoReturn:
        """Raises NotImplementedError."""
        raise NotImplementedError("there is no container: oncelog.testing.KafkaContainer runs a broker in this process")
