"""Which cluster a command asks: --bootstrap, a profile, the environment, or the broker of this machine; and its login.

Owns: the order of the four, the file of profiles, addresses. Does not own: the options (`asking`), names and values of
those about security (`client_properties`).
The file is `$ONCELOG_CONFIG`, else `oncelog/config.toml` below `$XDG_CONFIG_HOME` or `~/.config`:

    profile = "local"                      # what is used if nothing else says

    [profiles.local]
    bootstrap = "127.0.0.1:9092"

    [profiles.staging]
    bootstrap = "kafka-1:9093,kafka-2:9093"
    timeout = 30                           # seconds, unless --timeout says otherwise
    security_protocol = "SASL_SSL"         # and the other options of the client about security,
    sasl_mechanism = "SCRAM-SHA-512"       # or command_config, a properties file of Kafka's clients
    sasl_username = "alice"

Security comes from --command-config alone, if there is one. Otherwise from the profile, whose gaps the environment
fills (ONCELOG_SASL_PASSWORD); but one that says nothing of security gets no password of another cluster. Without a
profile it comes from the environment, or from the file that ONCELOG_COMMAND_CONFIG names.
"""

import os.path  # not pathlib: every command would load it for one name
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog.client.options.option_types import SecurityOptions

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S = 10.0
_VARIABLE = "ONCELOG_"
_OF_SECURITY = tuple(f"{_VARIABLE}{each}" for each in ("COMMAND_CONFIG", "SECURITY_", "SASL_", "SSL_"))
_PLAIN = frozenset(("bootstrap", "timeout", "command_config"))
"""The names in a profile that are not about security."""
_MAX_PORT = 2**16 - 1
MAX_TIMEOUT_S = 86_400
"""The longest timeout: sockets and the event loop have limits of their own, some hundred years."""


class ProfileError(Exception):
    """Raised if there is no such profile, or its file cannot be used; the message says what is wrong with what."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect, how, and how long a command may take."""

    bootstrap: str
    addresses: tuple[tuple[str, int], ...]
    timeout_s: float
    security: "SecurityOptions" = field(repr=False)
    """The options for each client that the command opens."""
    respelled: Callable[[str], str] = str
    """Returns a sentence of the client about these options in the names that they were given by."""


def target(
    bootstrap: str | None,
    profile: str | None,
    timeout_s: float | None,
    environment: Mapping[str, str],
    command_config: str | None = None,
) -> Target:
    """Return the cluster that was typed, or else the environment's, or else the file's own choice. Raises
    ProfileError."""
    given = _Given(timeout_s, environment, command_config)
    if bootstrap is not None:
        return given.target(bootstrap, "--bootstrap")
    if profile is None and "ONCELOG_BOOTSTRAP" in environment:
        return given.target(environment["ONCELOG_BOOTSTRAP"], "ONCELOG_BOOTSTRAP")
    known, path = _read(environment)
    if profile is not None:
        return given.of_profile(known, path, profile, "--profile")
    if "ONCELOG_PROFILE" in environment:
        return given.of_profile(known, path, environment["ONCELOG_PROFILE"], "ONCELOG_PROFILE")
    if "profile" in known:
        return given.of_profile(known, path, known["profile"], f"profile in {path}")
    return given.target(DEFAULT_BOOTSTRAP, "--bootstrap")


def named(
    text: str,
    named_by: str,
    timeout_s: float | None,
    environment: Mapping[str, str],
    command_config: str | None,
    config_option: str,
) -> Target:
    """Return the cluster that HOST:PORT, several with commas, or the name of a profile stands for; the last two
    arguments are the option of a properties file and its name. Raises ProfileError."""
    given = _Given(timeout_s, environment, command_config, config_option)
    if ":" in text:
        return given.target(text, named_by)
    known, path = _read(environment)
    return given.of_profile(known, path, text, named_by)


@dataclass(frozen=True, slots=True)
class _Given:
    """The options that a command was given beside the cluster's name."""

    timeout_s: float | None
    environment: Mapping[str, str]
    command_config: str | None
    config_option: str = "--command-config"

    def of_profile(self, known: Mapping[str, Any], path: str, name: Any, named_by: str) -> Target:
        profile = _profile(known, name, path, named_by)
        return self.target(profile["bootstrap"], f"profile {name!r} in {path}", profile)

    def target(self, bootstrap: str, named_by: str, profile: Mapping[str, Any] | None = None) -> Target:
        seconds = self.timeout_s or float((profile or {}).get("timeout", DEFAULT_TIMEOUT_S))
        addresses = tuple(_address(text.strip(), named_by) for text in bootstrap.split(","))
        from_environment = {
            name.removeprefix(_VARIABLE).lower(): value
            for name, value in self.environment.items()
            if name.startswith(_OF_SECURITY)
        }
        values: Mapping[str, Any] = from_environment if profile is None else profile
        if profile is not None and "security_protocol" in profile:
            values = {**from_environment, "command_config": None, **profile}
        # Most commands have nothing to do with security, and load nothing of it.
        if self.command_config is None and {"bootstrap", "timeout"}.issuperset(values):
            return Target(bootstrap, addresses, seconds, {})
        return Target(bootstrap, addresses, seconds, *self._security(values, profile, named_by))

    def _security(
        self, values: Mapping[str, Any], profile: Mapping[str, Any] | None, named_by: str
    ) -> "tuple[SecurityOptions, Callable[[str], str]]":
        """Return the options, and how sentences about them are spelled. Raises ProfileError."""
        from oncelog.tools import client_properties as properties

        def typed(option: str) -> str:
            return option if option in (profile or {}) else f"{_VARIABLE}{option.upper()}"

        path, origin = self.command_config, self.config_option
        if not path and values.get("command_config"):
            path = values["command_config"]
            origin = "ONCELOG_COMMAND_CONFIG" if profile is None else f"command_config of {named_by}"
        try:
            if profile is not None:
                properties.check_names(profile, named_by, str, _PLAIN)
            if path:
                options = properties.read_client_properties(path)
                return options, lambda text: f"{path}: {properties.respelled(text, properties.dotted)}"
            where = "the environment" if profile is None else named_by
            options = properties.named_options(values, where, typed)
            return options, lambda text: properties.respelled(text, typed)
        except properties.ClientPropertiesError as error:
            raise ProfileError(f"{origin}: {error}" if path else str(error)) from error


def _address(text: str, named_by: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise ProfileError(f"{named_by}: {text!r} is not of the form HOST:PORT")
    if not 0 < int(port) <= _MAX_PORT:
        raise ProfileError(f"{named_by}: {text!r} has no port from 1 to {_MAX_PORT}")
    return host.strip("[]"), int(port)


def _profile(known: Mapping[str, Any], name: Any, path: str, named_by: str) -> dict[str, Any]:
    profiles = known.get("profiles", {})
    chosen = profiles.get(name) if isinstance(profiles, dict) and isinstance(name, str) else None
    if not isinstance(chosen, dict):
        there = ", ".join(sorted(profiles)) or "none"
        raise ProfileError(f"{named_by}: there is no profile {name!r} in {path}, which has: {there}")
    bootstrap, seconds = chosen.get("bootstrap"), chosen.get("timeout", DEFAULT_TIMEOUT_S)
    if not isinstance(bootstrap, str) or not isinstance(seconds, int | float) or not 0 < seconds <= MAX_TIMEOUT_S:
        raise ProfileError(f'{path}: profile {name!r} needs bootstrap = "HOST:PORT", and timeout in seconds if any')
    return chosen


def _read(environment: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """Return the file and its path. The default file need not exist."""
    path = environment.get("ONCELOG_CONFIG")
    if not path:
        base = environment.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
        path = os.path.join(base, "oncelog", "config.toml")
        if not os.path.isfile(path):
            return {}, path
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file), path
    except OSError as error:
        raise ProfileError(f"ONCELOG_CONFIG: {path}: {error.strerror}") from error
    except ValueError as error:
        raise ProfileError(f"{path} cannot be read: {error}") from error
