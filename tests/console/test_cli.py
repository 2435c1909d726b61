"""`oncelog console` as a command: it says where it is, serves, ends with Ctrl-C, and says what is missing."""

import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.console import cli


def test_it_says_where_it_is_and_ends_with_ctrl_c_whoever_follows_a_page() -> None:
    command = [sys.executable, "-m", "oncelog", "console", "--listen", "127.0.0.1:0", "-b", "127.0.0.1:9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        address = process.stdout.readline().partition("http://")[2].partition(";")[0]
        connection = HTTPConnection(address, timeout=20)
        connection.request("GET", "/live/topics")
        assert connection.getresponse().getheader("content-type", "").startswith("text/event-stream")
        process.send_signal(signal.SIGINT)
        assert (process.wait(20), process.stderr.read()) == (0, "")


def test_an_address_that_is_taken_and_packages_that_are_missing_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = CliRunner().invoke(main, ["console", "--listen", address])
    assert (said.exit_code, f"{address} cannot be listened on" in said.output) == (2, True)
    assert CliRunner().invoke(main, ["console", "--listen", "nowhere"]).exit_code == 2
    monkeypatch.setattr(cli, "_NEEDED", ("no_such_package",))
    said = CliRunner().invoke(main, ["console"])
    assert (said.exit_code, "pip install 'oncelog[console]'" in said.output) == (2, True)
