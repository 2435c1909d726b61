"""Settings of Admin.

Owns: names, types, defaults. Those of the other clients are in `options`: this module is loaded by every command.
"""

from dataclasses import dataclass

from oncelog.client.values.option_values import check_values
from oncelog.client.wire.security import SecuritySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings(SecuritySettings):
    """The options of `Admin` with their defaults; times in milliseconds."""

    request_timeout_ms: float = 30_000
    """How long one request waits for its response before it is sent again."""
    default_api_timeout_ms: float = 60_000
    """How long a call with all its attempts may take."""
    retry_backoff_ms: float = 100
    """The pause between two attempts."""
    bootstrap_timeout_ms: float = 1_000
    """How long to try to open while nothing accepts a connection."""
    client_id: str = "oncelog-admin"
    """The name in the broker's logs and quotas."""

    def __post_init__(self) -> None:
        check_values(self)
