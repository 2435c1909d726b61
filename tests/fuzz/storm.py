"""The real daemon under many broken clients at once, with a good one among them.

Owns: the sockets, and what must hold: the daemon lives, in so much memory and no more; the good client is answered
right and soon; nothing unexpected is logged; a stop of any kind keeps what was acknowledged.
"""

import re
import resource
import select
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.canary import Canary
from tests.fuzz.conversation import Conversation, Wrong
from tests.fuzz.frames import request_frame, stream
from tests.fuzz.requests import Requests, World
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

ADDRESS_SPACE_BYTES = 3 << 30
MEMORY_BYTES = 600 << 20
SECONDS_TO_ANSWER = 10.0
"""The limit for one round of the good client (some ten requests), on a machine that is busy with other things too."""
_THREADS, _SOCKETS = 2, 12
_MAX_FRAME_BYTES = 104_857_600
_UNEXPECTED = re.compile(r'request\.failed|Traceback|MemoryError|never retrieved|"level": "(error|critical)"')


class _BrokenClient:
    """A socket that sends what it likes, and reads or does not."""

    def __init__(self, address: tuple[str, int], source: Random, first_correlation_id: int, reads: bool) -> None:
        self._address = address
        self._source = source
        self._requests = Requests(World(source, spares_internal_topics=True))
        self._correlation_id = first_correlation_id
        self._reads = reads
        self._spoilt = source.choice((0.0, 0.02, 0.2))
        self.recent: deque[bytes] = deque(maxlen=12)
        self.answers = 0
        self.frames = 0
        self._open()

    def _open(self) -> None:
        self.socket = socket.create_connection(self._address, timeout=PATIENCE_S)
        self.socket.setblocking(False)
        self._conversation = Conversation(_MAX_FRAME_BYTES)
        self._unsent: deque[bytes] = deque()

    def hears(self) -> bool:
        """Something has arrived. By poll(), which takes any descriptor; select() ends at 1,023."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(0))

    def turn(self) -> None:
        try:
            self._send()
            if self._reads:
                self._receive()
        except (ConnectionError, _Ended):
            self._again()
        if self._source.random() < 0.003:
            self._again()

    def _again(self) -> None:
        self.socket.close()
        self._open()

    def _send(self) -> None:
        if not self._unsent:
            frames = []
            for _ in range(self._source.choice((1, 1, 3, 20))):
                api, version, message = self._requests.next()
                self._correlation_id += 1
                frames.append(request_frame(api, version, message, self._correlation_id, self._source, self._spoilt))
            self.frames += len(frames)
            self._unsent.extend(stream(frames, self._source, self._spoilt))
        with suppress(BlockingIOError):
            while self._unsent:
                data = self._unsent[0]
                self.recent.append(data)
                sent = self.socket.send(data)
                self._conversation.sent(data[:sent])
                self._unsent.popleft()
                if sent < len(data):
                    self._unsent.appendleft(data[sent:])

    def _receive(self) -> None:
        with suppress(BlockingIOError):
            while True:
                data = self.socket.recv(1 << 20)
                if not data:
                    raise _Ended
                for answer in self._conversation.received(data):
                    self.answers += 1
                    self._requests.world.learn(answer)


class _Ended(Exception):
    """The broker has closed the connection."""


class _GoodClient:
    """Carries the requests of `Canary`."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=PATIENCE_S)
        self._conversation = Conversation(_MAX_FRAME_BYTES)

    def send(self, data: bytes) -> None:
        self._conversation.sent(data)
        self._socket.sendall(data)

    def answers(self) -> list[Any]:
        while True:
            data = self._socket.recv(1 << 20)
            if not data:
                raise Wrong("the good client's connection was closed")
            answers = self._conversation.received(data)
            if answers:
                return answers

    def close(self) -> None:
        self._socket.close()


def storm(directory: Path, seed: int, seconds: float) -> str:
    """One storm; what it was like, in a line. Raises Wrong or AssertionError for what must not be."""
    daemon = Daemon(directory / "data", "group.initial.rebalance.delay.ms=100")
    try:
        return _storm(daemon, Random(seed), seconds)
    finally:
        daemon.stop()


def _storm(daemon: Daemon, source: Random, seconds: float) -> str:
    if hasattr(resource, "prlimit"):
        resource.prlimit(daemon.process.pid, resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    host, _, port = daemon.bootstrap.rpartition(":")
    address = (host, int(port))
    until = time.monotonic() + seconds
    errors: list[BaseException] = []
    tallies: list[tuple[int, int]] = []

    def rage(number: int) -> None:
        try:
            tallies.append(_rage(address, Random(source.random()), number, until))
        except BaseException as error:  # raised in the main thread
            errors.append(error)

    threads = [threading.Thread(target=rage, args=(number,)) for number in range(_THREADS)]
    for thread in threads:
        thread.start()
    canary, slowest, rounds = Canary(), 0.0, 0
    try:
        good = _GoodClient(address)
        while time.monotonic() < until and not errors:
            start = time.monotonic()
            canary.ask(good, lambda: None)
            slowest = max(slowest, time.monotonic() - start)
            rounds += 1
        good.close()
    finally:
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    memory = _most_memory_bytes(daemon.process.pid)
    _check(daemon, slowest, memory)
    for stop in (daemon.kill, lambda: _stop_well(daemon)):
        stop()
        daemon.start()
        good = _GoodClient(address)
        canary.ask(good, lambda: None)
        good.close()
    _check(daemon, 0.0, 0)
    frames, answers = (sum(column) for column in zip(*tallies, strict=True))
    return (
        f"{frames} frames from {_THREADS * _SOCKETS} clients, {answers} answers; the good one asked {rounds} times, at "
        f"most {slowest:.2f} s; the daemon took at most {memory >> 20} MB"
    )


def _rage(address: tuple[str, int], source: Random, number: int, until: float) -> tuple[int, int]:
    clients = [
        # Correlation ids of their own: an answer that goes to the wrong connection cannot fit there.
        _BrokenClient(address, Random(source.random()), (number * _SOCKETS + each) * 10_000_000, reads=each % 6 != 5)
        for each in range(_SOCKETS)
    ]
    client = clients[0]
    try:
        while time.monotonic() < until:
            for client in clients:
                if client.hears() or source.random() < 0.5:
                    client.turn()
    except Exception as error:
        sent = "\n".join(data[:2_000].hex() for data in client.recent)
        raise Wrong(f"{type(error).__name__}: {error}; sent last:\n{sent}") from error
    finally:
        for client in clients:
            client.socket.close()
    return sum(client.frames for client in clients), sum(client.answers for client in clients)


def _stop_well(daemon: Daemon) -> None:
    code = daemon.stop()
    if code != 0:
        raise Wrong(f"the daemon ended with exit code {code}")


def _most_memory_bytes(pid: int) -> int:
    """The largest resident set so far; 0 where the system does not report it."""
    status = Path(f"/proc/{pid}/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else 0


def _check(daemon: Daemon, slowest: float, memory: int) -> None:
    code = daemon.process.poll()
    if code is not None:
        raise Wrong(f"the daemon is gone: exit code {code}\n{daemon.log[-3000:]}")
    for line in daemon.log.splitlines():
        if _UNEXPECTED.search(line):
            raise Wrong(f"the daemon logged: {line[:3000]}")
    if slowest > SECONDS_TO_ANSWER:
        raise Wrong(f"the good client waited {slowest:.1f} s")
    if memory > MEMORY_BYTES:
        raise Wrong(f"the daemon took {memory >> 20} MB")
