"""A request that the client sends: its codecs, and the versions that this client supports; those of every client.

Owns: `Api`, how one is declared, and the APIs that any connection needs. Does not own: the others, by who sends them,
so that a command loads what it asks for: `coordinator_apis`, `reader_apis`, `producer_apis`, `group_apis`, and the
modules of `admin`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated import (
    api_versions_request,
    api_versions_response,
    metadata_request,
    metadata_response,
)
from oncelog.protocol.message import Data, Decode, Encode, ReadT, WrittenT

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True, slots=True)
class Api(Generic[RequestT, ResponseT]):
    key: ApiKey
    encode: Callable[[RequestT, int], list[Data]]
    decode: Callable[[memoryview, int, int], tuple[ResponseT, int]]
    flexible_from: int | None
    minimum: int
    maximum: int

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    def answers_flexibly(self, version: int) -> bool:
        """Whether responses of this version have a flexible header. Those to ApiVersions never do: they must be
        readable before the versions are known (KIP-511)."""
        return self.key != ApiKey.API_VERSIONS and self.is_flexible(version)


class _Request(Protocol[WrittenT]):
    """The generated module of a request."""

    API_KEY: int
    FLEXIBLE_FROM: int | None

    @property
    def encode(self) -> Encode[WrittenT]: ...


class _Response(Protocol[ReadT]):
    """The generated module of a response."""

    @property
    def decode(self) -> Decode[ReadT]: ...


def api_of(
    request: _Request[RequestT], response: _Response[ResponseT], minimum: int, maximum: int
) -> Api[RequestT, ResponseT]:
    """Declare an API by its two modules and the versions that this client supports."""
    key = ApiKey(request.API_KEY)
    return Api(key, request.encode, response.decode, request.FLEXIBLE_FROM, minimum, maximum)


API_VERSIONS = api_of(api_versions_request, api_versions_response, 0, 3)
METADATA = api_of(metadata_request, metadata_response, 1, 12)
