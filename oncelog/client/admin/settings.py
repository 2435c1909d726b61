"""Settings of Admin.

Owns: names, types, defaults; each is declared twice, as those in `settings`, which has the other clients': this one is
loaded by every command.
"""

from dataclasses import dataclass

from oncelog.client.values.option_values import check_values
from oncelog.client.wire.security import SecurityOptions, SecuritySettings


class AdminOptions(SecurityOptions, total=False):
    """The keyword arguments of `Admin`, for type checkers; `AdminSettings` has their defaults."""

    request_timeout_ms: float
    default_api_timeout_ms: float
    retry_backoff_ms: float
    bootstrap_timeout_ms: float
    client_id: str


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
