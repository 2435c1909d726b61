"""What a Fetch needs of its request, of the client that sent it, and of the broker.

Owns: only the interfaces. `broker.requests.context` and `broker.requests.parts` have them: rooms above this one.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.turns.slices import Sliced

if TYPE_CHECKING:
    from oncelog.broker.cluster.leadership import Leadership
    from oncelog.broker.cluster.topics import Topics
    from oncelog.broker.fetching.purgatory import FetchPurgatory
    from oncelog.broker.fetching.session_cache import FetchSessionCache
    from oncelog.broker.security.authorizer import Authorizer
    from oncelog.broker.security.principal import Principal
    from oncelog.broker.turns.ports import Scheduler


class FetchBroker(Protocol):
    @property
    def topics(self) -> "Topics": ...

    @property
    def leadership(self) -> "Leadership": ...

    @property
    def purgatory(self) -> "FetchPurgatory": ...

    @property
    def fetch_sessions(self) -> "FetchSessionCache": ...

    @property
    def scheduler(self) -> "Scheduler": ...

    @property
    def authorizer(self) -> "Authorizer | None": ...

    @property
    def fetch_max_bytes(self) -> int: ...


class FetchPeer(Protocol):
    on_disconnect: Callable[[], None] | None

    @property
    def principal(self) -> "Principal": ...

    @property
    def host(self) -> str: ...

    @property
    def next_response_bytes(self) -> int: ...


class FetchContext(Protocol):
    @property
    def broker(self) -> FetchBroker: ...

    @property
    def peer(self) -> FetchPeer: ...

    @property
    def api_version(self) -> int: ...

    @property
    def advertised(self) -> tuple[str, int]: ...

    def run(self, steps: Sliced[Any]) -> Any: ...
