"""Each option that takes HOST:PORT × each form of an address: read as Kafka reads it, or refused with what to write."""

from collections.abc import Callable

import click
import pytest

from oncelog.broker.config.admin_address import parse_http_address
from oncelog.broker.config.listeners import ListenerError, parse_host_port, plain_address
from oncelog.broker.config.settings import ConfigError, load_config
from oncelog.client.values.errors import ConfigError as ClientConfigError
from oncelog.client.values.option_values import parse_addresses
from oncelog.console import cli as console
from oncelog.tools import profiles
from oncelog.tools.kafka_scripts import cluster

Address = tuple[str, int]


def _listeners(text: str) -> Address:
    (found,) = load_config(overrides=[f"listeners=PLAINTEXT://{text}"], host_name=lambda: "box")[0].listeners
    return found.host, found.port


def _advertised(text: str) -> Address:
    overrides = ["listeners=PLAINTEXT://:1", f"advertised.listeners=PLAINTEXT://{text}"]
    (found,) = load_config(overrides=overrides, host_name=lambda: "box")[0].listeners
    return found.advertised_host, found.advertised_port


def _advertised_alone(text: str) -> Address:
    """Parse an advertised listener without `listeners`: it sets the bound address, too."""
    overrides = [f"advertised.listeners=PLAINTEXT://{text}"]
    (found,) = load_config(overrides=overrides, host_name=lambda: "box")[0].listeners
    assert (found.host, found.port) == ("0.0.0.0", found.advertised_port)
    return found.advertised_host, found.advertised_port


def _http(text: str) -> Address:
    found = parse_http_address(text)
    return found.host, found.port


def _console(text: str) -> Address:
    return console._address(click.Context(console.console), console.console.params[0], text)


def _bootstrap(text: str) -> Address:
    (found,) = parse_addresses(text)
    return found


OPTIONS: dict[str, Callable[[str], Address]] = {
    "listeners": _listeners,
    "advertised.listeners": _advertised,
    "advertised.listeners alone": _advertised_alone,
    "oncelog.metrics.listen, oncelog.admin.listen, --metrics, --faults": _http,
    "oncelog.statsd.address": parse_host_port,
    "console --listen": _console,
    "bootstrap_servers": _bootstrap,
    "--bootstrap": lambda text: profiles._address(text, "--bootstrap"),
    "cub kafka-ready": cluster._address,
}
REFUSALS = (ValueError, ConfigError, ClientConfigError, ListenerError, profiles.ProfileError, click.BadParameter)
FORMS: dict[str, Address] = {
    "localhost:9092": ("localhost", 9092),
    "my_host-1.example:9092": ("my_host-1.example", 9092),
    "127.0.0.1:9092": ("127.0.0.1", 9092),
    "[::1]:9092": ("::1", 9092),
    "[fe80::1%eth0]:9092": ("fe80::1%eth0", 9092),
    "[fe80::1%3]:9092": ("fe80::1%3", 9092),
    "[2001:db8::10.0.0.5]:9092": ("2001:db8::10.0.0.5", 9092),
    "::1:9092": ("::1", 9092),
}
ANY: dict[str, Address] = {"[::]:9092": ("::", 9092), "0.0.0.0:9092": ("0.0.0.0", 9092)}
TO_LISTEN = ("listeners", "oncelog.metrics.listen, oncelog.admin.listen, --metrics, --faults", "console --listen")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_reads_each_form_of_an_address(option: str, form: str) -> None:
    assert OPTIONS[option](form) == FORMS[form]


@pytest.mark.parametrize("form", ANY)
@pytest.mark.parametrize("option", TO_LISTEN)
def test_what_listens_takes_every_address_of_the_machine(option: str, form: str) -> None:
    assert OPTIONS[option](form) == ANY[form]


@pytest.mark.parametrize("form", ["localhost", "localhost:", "localhost:99999", "localhost:kafka", "[::1:9092x", ""])
@pytest.mark.parametrize("option", OPTIONS)
def test_what_is_no_address_is_refused_with_the_form(option: str, form: str) -> None:
    with pytest.raises((*REFUSALS, cluster.Wrong)) as refused:
        OPTIONS[option](form)
    assert "host:port" in str(refused.value).lower() or "65535" in str(refused.value), refused.value


@pytest.mark.parametrize("form", ["[::]:9092", "0.0.0.0:9092", ":9092"])
def test_no_client_is_sent_to_every_address(form: str) -> None:
    with pytest.raises(ConfigError, match=r"advertised\.listeners cannot be"):
        _advertised(form)


@pytest.mark.parametrize(
    ("host", "plain"),
    [
        ("::ffff:10.0.0.5", "10.0.0.5"),
        ("10.0.0.5", "10.0.0.5"),
        ("::1", "::1"),
        ("::FFFF:a00:5", "10.0.0.5"),
        ("0::1", "::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("a::b::c", "a::b::c"),
    ],
)
def test_a_peer_has_the_address_that_rules_and_quotas_name(host: str, plain: str) -> None:
    assert plain_address(host) == plain
