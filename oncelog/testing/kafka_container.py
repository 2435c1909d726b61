"""A stand-in for testcontainers' KafkaContainer that starts no container.

Owns: its methods, so that a test changes an import and nothing else. Does not own: the broker (`broker`).
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from oncelog.broker.config.settings import environment_key
from oncelog.testing.broker import Broker, Setting

__tracebackhide__ = True
_HOST = "127.0.0.1"
_PREFIX = "KAFKA_"
# What a container needs to find itself, and one process does not.
_NOT_OURS = {"listeners", "advertised.listeners", "listener.security.protocol.map", "process.roles", "node.id"}


_WITHOUT_EFFECT = {
    *("configure", "maybe_emulate_amd64", "waiting_for", "with_cluster_id", "with_exposed_ports", "with_kraft"),
    *("with_kwargs", "with_name", "with_network", "with_network_aliases", "with_tmpfs_mount", "with_volume_mapping"),
}
_OF_A_CONTAINER = {
    *("copy_from_container", "copy_into_container", "create_file", "exec", "get_container_id", "get_container_info"),
    *("get_docker_client", "get_wrapped_container", "reload", "status", "tc_start", "wait", "with_command"),
    *("with_copy_into_container", "with_env_file", "TC_START_SCRIPT", "MIN_KRAFT_TAG"),
}


class KafkaContainer:
    """Use it as `testcontainers.kafka.KafkaContainer`; what only a container can do raises NotImplementedError.

    with KafkaContainer() as kafka:
        producer = Producer({"bootstrap.servers": kafka.get_bootstrap_server()})
    """

    def __init__(self, image: str = "oncelog", port: int = 9093, **_: Any) -> None:
        """Accepts `image` and what else a container takes, and does not use them."""
        self.image = image
        self.port = port
        self._config: dict[str, Setting] = {}
        self._bound_port = 0
        self._broker: Broker | None = None

    def with_env(self, key: str, value: str) -> Self:
        """Set a setting by the variable of Kafka's image, such as KAFKA_NUM_PARTITIONS; others are ignored."""
        if key.startswith(_PREFIX):
            name = environment_key(key)
            if name not in _NOT_OURS and not name.startswith("controller."):
                self._config[name] = value
        return self

    def with_envs(self, **variables: str) -> Self:
        """Set several settings at once."""
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def with_bind_ports(self, _: int | str, host: int | None = None) -> Self:
        """Listen on this port of the machine."""
        self._bound_port = host or 0
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
        """Return HOST:PORT for any Kafka client."""
        if self._broker is None:
            raise RuntimeError("the broker is not running: call start(), or use it in a `with` block")
        return self._broker.bootstrap_servers

    def get_container_host_ip(self) -> str:
        """Return the address of this machine."""
        return _HOST

    def get_exposed_port(self, port: int) -> int:
        """Return the port of the broker, whichever is requested."""
        return int(self.get_bootstrap_server().rpartition(":")[2])

    def get_logs(self) -> tuple[bytes, bytes]:
        """Return nothing: the broker logs to `logging.getLogger("oncelog.broker")`."""
        return b"", b""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in _WITHOUT_EFFECT:
            return lambda *_, **__: self
        if name in _OF_A_CONTAINER:
            raise NotImplementedError(
                f"KafkaContainer.{name}: there is no container, the broker runs in this process; what you would run "
                "in one, run here: `oncelog topic` and the others take any bootstrap address"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
