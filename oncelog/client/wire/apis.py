"""A request that the client sends: its codecs, and the versions that this client supports; those of every client.

Owns: `Api`, and the APIs that any connection needs. Does not own: the others, by who sends them, so that a command
loads what it asks for: `coordinator_apis`, `reader_apis`, `producer_apis`, `group_apis`, and the modules of `admin`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated import (
    api_versions_request,
    api_versions_response,
    metadata_request,
    metadata_response,
)
from oncelog.protocol.message import Data

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


API_VERSIONS = Api(
    ApiKey.API_VERSIONS,
    api_versions_request.encode,
    api_versions_response.decode,
    api_versions_request.FLEXIBLE_FROM,
    0,
    3,
)
METADATA = Api(
    ApiKey.METADATA, metadata_request.encode, metadata_response.decode, metadata_request.FLEXIBLE_FROM, 1, 12
)
