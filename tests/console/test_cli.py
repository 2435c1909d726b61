"""`oncelog console` as a command: it says where it is, serves, ends with Ctrl-C, and says what is missing."""

import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.console import cli
from oncelog.installing import how_to_install
from oncelog.testing import Broker
from tests.support.patience import PATIENCE_S


def test_it_says_where_it_is_and_ends_with_ctrl_c_though_pages_are_open() -> None:
    command = [sys.executable, "-m", "oncelog", "console", "--listen", "127.0.0.1:0", "-b", "127.0.0.1:9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        address = process.stdout.readline().partition("http://")[2].partition(";")[0]
        connection = HTTPConnection(address, timeout=PATIENCE_S)
        connection.request("GET", "/live/topics")
        assert connection.getresponse().getheader("content-type", "").startswith("text/event-stream")
        process.send_signal(signal.SIGINT)
        assert (process.wait(PATIENCE_S), process.stderr.read()) == (0, "")


@pytest.mark.oncelog(security="SASL_SSL/SCRAM-SHA-512")
@pytest.mark.parametrize("is_right", [True, False])
def test_it_logs_in_over_tls_by_a_file_of_kafkas_clients(
    oncelog_broker: Broker, tmp_path: Path, is_right: bool
) -> None:
    oncelog_broker.create_topic("orders")
    settings = oncelog_broker.client_settings()
    password = settings["sasl_password"] if is_right else "another"
    authority = settings["ssl_truststore_certificates"].replace("\n", "\\n")
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{settings["sasl_username"]}" password="{password}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.certificates={authority}\n"
    )
    options = ["-b", oncelog_broker.bootstrap_servers, "--command-config", str(properties)]
    command = [sys.executable, "-m", "oncelog", "console", "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        said = process.stdout.readline()
        assert said, process.stderr.read()
        connection = HTTPConnection(said.partition("http://")[2].partition(";")[0], timeout=PATIENCE_S)
        connection.request("GET", "/topics")
        page = connection.getresponse().read().decode()
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
    assert (">orders<" in page, "password" in page) == (is_right, not is_right), page


def test_a_token_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    """The error is one line, which names the option."""
    options = ["--listen", "127.0.0.1:0", "--faults", "127.0.0.1:9", "--faults-token-file", str(tmp_path / "none")]
    said = CliRunner().invoke(main, ["console", *options])
    assert said.exit_code == 2 and f"--faults-token-file {tmp_path / 'none'}: No such file" in said.output


def test_an_address_that_is_taken_and_packages_that_are_missing_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = CliRunner().invoke(main, ["console", "--listen", address])
    assert (said.exit_code, f"{address} cannot be listened on" in said.output) == (2, True)
    assert CliRunner().invoke(main, ["console", "--listen", "nowhere"]).exit_code == 2
    monkeypatch.setattr(cli, "_NEEDED", ("no_such_package",))
    said = CliRunner().invoke(main, ["console"])
    assert (said.exit_code, how_to_install("console") in said.output) == (2, True)
