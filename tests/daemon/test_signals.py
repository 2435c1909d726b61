"""What each signal does to a broker and to commands that run for long: none ends one without a line."""

import json
import os
import pty
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from oncelog.broker.daemon.signals import IGNORED, REAL_TIME, STOPS, name_of
from oncelog.cli import main
from oncelog.client.blocking.clients import Producer
from oncelog.testing import Broker
from tests.conftest import Start
from tests.support.patience import PATIENCE_S, until
from tests.support.processes.daemon import LOOKS_AT_FILES
from tests.support.processes.logged import events
from tests.support.security.certificates import Certificates

_NEVER_CAUGHT = {signal.SIGKILL, signal.SIGSTOP}
_SYSTEMS_OWN = {
    *(signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH),  # nothing happens
    *(signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),  # the process stands still, until SIGCONT
    *(signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS),
}
"""Signals whose default is right: the last ones are of a fault in the process, whose memory cannot be trusted."""
_PYTHONS_OWN = {signal.SIGPIPE, signal.SIGXFSZ}
"""Ignored: the write fails."""


def names(log: Path) -> list[str]:
    return [event["event"] for event in events(log)]


def test_each_signal_of_the_system_has_a_place_in_the_table() -> None:
    """Real-time signals, too, most of which have a number alone."""
    handled = {*STOPS, *IGNORED, signal.SIGHUP, signal.SIGQUIT}
    assert signal.valid_signals() - _NEVER_CAUGHT - _SYSTEMS_OWN - _PYTHONS_OWN == handled


@LOOKS_AT_FILES
def test_a_signal_that_asks_for_nothing_is_a_line_and_the_broker_serves_on(start_daemon: Start) -> None:
    daemon = start_daemon()
    for count, number in enumerate((*IGNORED, signal.SIGQUIT), 1):
        daemon.process.send_signal(number)
        assert daemon.await_event("signal.ignored", count)["signal"] == name_of(number)
    assert daemon.log.count(f"SIGRTMIN+{len(REAL_TIME) // 2}") == 1
    for number in _PYTHONS_OWN:
        daemon.process.send_signal(number)
    daemon.process.send_signal(signal.SIGHUP)
    assert "nothing to read again" in daemon.await_event("broker.reloaded")["message"]
    assert re.search(r"^(Current thread|Thread) 0x", daemon.log, re.MULTILINE), "no stacks"
    assert daemon.stop() == 0


@LOOKS_AT_FILES
def test_sighup_reads_a_new_certificate_and_keeps_the_one_before_if_it_is_not_usable(
    start_daemon: Start, tmp_path: Path
) -> None:
    """The new one is used by the listener and by the HTTP port, with the token of the latter."""
    certificates = Certificates(tmp_path)
    path, token = Path(certificates.server_path), tmp_path / "token"
    token.write_text("a" * 32)
    token.chmod(0o600)
    daemon = start_daemon(
        "listeners=SSL://127.0.0.1:0",
        "oncelog.metrics.listen=https://127.0.0.1:0",
        f"oncelog.metrics.token.file={token}",
        *[f"{key}={value}" for key, value in certificates.server_settings().items()],
    )
    metrics = daemon.await_event("metrics.ready")["address"]
    before = path.read_bytes()
    assert _served(daemon.bootstrap) == _served(metrics) == _first_of(before)

    path.write_bytes(before[:100])
    daemon.process.send_signal(signal.SIGHUP)
    kept = daemon.await_event("broker.reloaded")
    assert kept["kept"] == ["SSL", "oncelog_metrics"]
    refused = daemon.await_event("files.not_usable", 2)
    assert "ssl.keystore" in refused["error"] and "send SIGHUP again" in refused["message"]
    assert _served(daemon.bootstrap) == _served(metrics) == _first_of(before)

    certificates.issued("server", "localhost", "127.0.0.1")
    token.write_text("b" * 32)
    daemon.process.send_signal(signal.SIGHUP)
    changed = daemon.await_event("broker.reloaded", 2)
    assert (changed["changed"], changed["kept"]) == (3, [])
    assert "SSL has a key and certificate, which ends on" in changed["message"]
    assert _served(daemon.bootstrap) == _served(metrics) == _first_of(path.read_bytes())
    context = ssl.create_default_context(cafile=certificates.authority_path)
    for given, status in (("a" * 32, 401), ("b" * 32, 200)):
        asked = Request(f"https://{metrics}/metrics", headers={"Authorization": f"Bearer {given}"})
        assert _status(asked, context) == status
    daemon.process.send_signal(signal.SIGHUP)
    assert daemon.await_event("broker.reloaded", 3)["message"] == "nothing is different"


@LOOKS_AT_FILES
def test_a_certificate_of_another_name_is_refused_on_sighup_as_kafka_refuses_it(
    start_daemon: Start, tmp_path: Path
) -> None:
    certificates = Certificates(tmp_path)
    settings = [f"{key}={value}" for key, value in certificates.server_settings().items()]
    daemon = start_daemon("listeners=SSL://127.0.0.1:0", *settings)
    certificates.issued("server", "elsewhere.example")
    daemon.process.send_signal(signal.SIGHUP)
    refused = daemon.await_event("files.not_usable")
    assert "ssl.allow.san.changes" in refused["error"]


@LOOKS_AT_FILES
def test_the_end_of_a_certificate_is_in_the_log_at_readyz_in_doctor_and_in_the_client(
    start_daemon: Start, tmp_path: Path
) -> None:
    """A certificate near its end is a warning, and the broker is ready; after its end no client gets in, and it is
    not.
    """
    certificates = Certificates(tmp_path)
    settings = certificates.server_settings()
    certificates.issued("server", "localhost", "127.0.0.1", ends=datetime.now(UTC) + timedelta(days=9.5))
    daemon = start_daemon(
        "listeners=SSL://127.0.0.1:0",
        "oncelog.metrics.listen=127.0.0.1:0",
        *[f"{key}={value}" for key, value in settings.items()],
    )
    metrics = daemon.await_event("metrics.ready")["address"]
    assert "in 9 days: replace its file" in daemon.await_event("certificate.ends_soon")["message"]
    ready = json.loads(urlopen(f"http://{metrics}/readyz", timeout=PATIENCE_S).read())
    assert ready["status"] == "ready" and "listener SSL ends on" in ready["warnings"][0]
    properties = tmp_path / "client.properties"
    properties.write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={certificates.authority_path}\n"
    )
    doctor = ["doctor", "-b", daemon.bootstrap, "--command-config", str(properties), "--json"]
    examined = CliRunner().invoke(main, doctor)
    found = {row["check"]: row for row in json.loads(examined.stdout)}[f"certificate of {daemon.bootstrap}"]
    assert (examined.exit_code, found["result"]) == (0, "look") and "in 9 days" in found["detail"]

    certificates.issued("server", "localhost", "127.0.0.1", ends=datetime.now(UTC) - timedelta(days=1))
    daemon.process.send_signal(signal.SIGHUP)
    assert "and clients refuse it" in daemon.await_event("certificate.ended")["message"]
    with pytest.raises(HTTPError) as refused:
        urlopen(f"http://{metrics}/readyz", timeout=PATIENCE_S)
    assert refused.value.code == 503 and "listener SSL ended on" in json.loads(refused.value.read())["reason"]
    examined = CliRunner().invoke(main, doctor)
    (found,) = json.loads(examined.stdout)
    assert (examined.exit_code, found["result"]) == (1, "wrong") and "reads it again on SIGHUP" in found["detail"]
    asked = CliRunner().invoke(main, ["topic", "list", "-b", daemon.bootstrap, "--command-config", str(properties)])
    assert asked.exit_code == 2 and "certificate has expired; it has ended" in asked.stderr


def _served(address: str) -> str:
    """Return the certificate that is served there, as PEM."""
    host, _, port = address.rpartition(":")
    return ssl.get_server_certificate((host, int(port)), timeout=PATIENCE_S)


def _first_of(pem: bytes) -> str:
    der = ssl.PEM_cert_to_DER_cert(re.search(r"-----BEGIN CERT.*?END CERT\w+-----", pem.decode(), re.DOTALL)[0])  # type: ignore[index]
    return ssl.DER_cert_to_PEM_cert(der)


def _status(asked: Request, context: ssl.SSLContext) -> int:
    try:
        return int(urlopen(asked, timeout=PATIENCE_S, context=context).status)
    except HTTPError as error:
        return error.code


# --- terminals, pipes -------------------------------------------------------------------------------------------------


def _on_a_terminal(data_dir: Path, *, log: Path | None) -> tuple[int, int]:
    """Start a broker that leads a session of its own on a new terminal; return its pid, and the terminal's other end,
    once it is ready. Without `log` it logs to the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover
        if log is not None:
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 2)
        serve = [sys.executable, "-P", "-m", "oncelog.broker", "serve"]
        os.execv(sys.executable, [*serve, "--listen", "127.0.0.1:0", "--data-dir", str(data_dir)])
    shown = b""
    while b"oncelog ready" not in shown:
        shown += os.read(terminal, 4_096)
    return pid, terminal


@LOOKS_AT_FILES
@pytest.mark.parametrize("logs_to_terminal", [False, True])
def test_a_broker_on_a_terminal_that_is_closed_stops_cleanly(tmp_path: Path, logs_to_terminal: bool) -> None:
    """The stop is clean even if the log was on that terminal; while the terminal is there, SIGHUP reloads."""
    log = None if logs_to_terminal else tmp_path / "log"
    pid, terminal = _on_a_terminal(tmp_path / "data", log=log)
    if log is not None:
        os.kill(pid, signal.SIGHUP)
        until(lambda: names(log).count("broker.reloaded") == 1)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    if log is not None:
        assert names(log)[-3:] == ["terminal.closed", "broker.stopping", "broker.stopped"]
    assert not list((tmp_path / "data").glob("**/*.unclean"))
    assert CliRunner().invoke(main, ["log", "verify", str(tmp_path / "data")]).exit_code == 0


@LOOKS_AT_FILES
def test_a_broker_under_nohup_serves_on_when_its_terminal_is_closed(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        pid, terminal = _on_a_terminal(tmp_path / "data", log=tmp_path / "log")
    finally:
        signal.signal(signal.SIGHUP, before)
    os.close(terminal)
    until(lambda: "broker.reloaded" in names(tmp_path / "log"))
    os.kill(pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@LOOKS_AT_FILES
def test_a_broker_whose_log_has_no_reader_any_more_serves_and_stops_as_ever(tmp_path: Path) -> None:
    """Each line of its log would be EPIPE; what a line is about must not fail for it."""
    command = [sys.executable, "-P", "-m", "oncelog.broker", "serve", "--log-level", "debug"]
    process = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    address = process.stdout.readline().split()[-1]
    process.stderr.close()
    made = CliRunner().invoke(main, ["topic", "create", "orders", "-b", address])
    assert made.exit_code == 0, made.output
    process.send_signal(signal.SIGHUP)
    assert CliRunner().invoke(main, ["record", "produce", "orders", "one", "-b", address]).exit_code == 0
    process.terminate()
    assert process.wait(PATIENCE_S) == 0
    process.stdout.close()
    assert CliRunner().invoke(main, ["log", "verify", str(tmp_path / "data")]).exit_code == 0


# --- commands ---------------------------------------------------------------------------------------------------------


def _console(bootstrap: str, _: Path) -> list[str]:
    return ["console", "--listen", "127.0.0.1:0", "-b", bootstrap]


def _tail(bootstrap: str, _: Path) -> list[str]:
    return ["txn", "tail", "--from-beginning", "-b", bootstrap]


def _consume(bootstrap: str, _: Path) -> list[str]:
    return ["record", "consume", "orders", "--offset", "start", "-b", bootstrap]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
@pytest.mark.parametrize("command", [_console, _tail, _consume])
def test_a_command_that_a_signal_ends_says_so_with_a_code_that_is_no_clean_end(
    tmp_path: Path, command: Callable[[str, Path], list[str]], number: signal.Signals
) -> None:
    with Broker() as broker:
        with (
            Producer(broker.bootstrap_servers, transactional_id="t") as producer,
            producer.transaction() as begun,
        ):
            begun.send("orders", b"value")
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "oncelog", *command(broker.bootstrap_servers, tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, f"ended by {number.name}" in said) == (128 + number, True), said
