"""Replays the published frames to a broker and reports where it answers otherwise than Apache Kafka 4.3.

    python -m tests.conformance.replay HOST:PORT [CONVERSATION…]

Needs nothing but the standard library and `answers/transaction_frames.jsonl.gz`; docs/compare/transcripts.md has the
format. The broker must be fresh and alone: topics and transactional ids are made on the way. One connection, one
request at a time; ends with the exit code 1 if any answer differs.
"""

import gzip
import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FRAMES = Path(__file__).parent / "answers" / "transaction_frames.jsonl.gz"
PAUSE_S, PATIENCE_S, LONG_PATIENCE_S = 0.02, 5.0, 60.0

Ask = Callable[[bytes], bytes]
"""A frame without its length to the answer without its length."""
Step = dict[str, Any]


def steps(conversation: str) -> Iterator[Step]:
    with gzip.open(FRAMES, "rt", encoding="utf-8") as lines:
        for line in lines:
            step: Step = json.loads(line)
            if step["conversation"] == conversation:
                yield step


def conversations() -> list[str]:
    with gzip.open(FRAMES, "rt", encoding="utf-8") as lines:
        return sorted({json.loads(line)["conversation"] for line in lines})


# --- frames -----------------------------------------------------------------------------------------------------------


def _crc32c_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC32C = _crc32c_table()


def crc32c(data: bytes | bytearray) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


@dataclass(slots=True)
class Replay:
    """One conversation with one broker."""

    ask: Ask
    pause: Callable[[float], None]
    producer_ids: dict[int, int]
    wall_ms: int

    def frame(self, step: Step) -> bytes:
        """The request with the producer ids that this broker gave out, and with the time of today."""
        frame = bytearray.fromhex(step["send"])
        for at, number, plus in step.get("producer_ids", ()):
            frame[at : at + 8] = (self.producer_ids[number] + plus).to_bytes(8, "big")
        for at in step.get("times", ()):
            frame[at : at + 8] = self.wall_ms.to_bytes(8, "big")
        if "crc32c" in step:
            at, start, end = step["crc32c"]
            frame[at : at + 4] = crc32c(frame[start:end]).to_bytes(4, "big")
        return bytes(frame)

    def take(self, step: Step) -> str | None:
        """Ask, again and again where the step says so; what is wrong with the last answer, None if nothing is."""
        if "pause_ms" in step:
            self.pause(step["pause_ms"] / 1000)
        frame = self.frame(step)
        patience_s = (LONG_PATIENCE_S if step.get("waits") else PATIENCE_S) if step.get("again") else 0.0
        while True:
            answer = self.ask(frame)
            wrong = mismatch(step, answer) or self._stranger(step, answer)
            if wrong is None or patience_s <= 0:
                break
            self.pause(PAUSE_S)
            patience_s -= PAUSE_S
        for at, number in step.get("take", ()):
            self.producer_ids[number] = int.from_bytes(answer[at : at + 8], "big", signed=True)
        return wrong

    def _stranger(self, step: Step, answer: bytes) -> str | None:
        for at, number in step.get("same", ()):
            found = int.from_bytes(answer[at : at + 8], "big", signed=True)
            if found != self.producer_ids.get(number):
                return f"at {at}: Kafka answers producer id {self.producer_ids.get(number)} again, here is {found}"
        return None


def mismatch(step: Step, answer: bytes) -> str | None:
    for at, expected in step.get("expect", ()):
        found = answer[at : at + len(expected) // 2].hex()
        if found != expected:
            return f"at {at}: Kafka {expected}, here {found or 'nothing'}"
    for expected in step.get("has", ()):
        if bytes.fromhex(expected) not in answer:
            return f"Kafka has {expected} somewhere, here is {answer.hex()}"
    return None


def run(conversation: str, replay: Replay) -> Iterator[tuple[str, str]]:
    """Each question that is answered otherwise, and how."""
    for step in steps(conversation):
        wrong = replay.take(step)
        if wrong is not None:
            yield step.get("question", "on the way"), f"{step['api']} v{step['version']}: {wrong}"


# --- a broker behind a socket -----------------------------------------------------------------------------------------


def connected(address: str) -> Ask:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=60)

    def read(size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = connection.recv(size - len(data))
            if not part:
                raise ConnectionError("the broker closed the connection")
            data += part
        return data

    def ask(frame: bytes) -> bytes:
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        return read(int.from_bytes(read(4), "big"))

    return ask


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__)
        return 2
    address, *wanted = arguments
    count = 0
    for conversation in wanted or conversations():
        asked = sum("question" in step for step in steps(conversation))
        replay = Replay(connected(address), time.sleep, {}, int(time.time() * 1000))
        different = 0
        for question, wrong in run(conversation, replay):
            different += 1
            print(f"{conversation}: {question}\n    {wrong}")
        print(f"{conversation}: {asked} questions, {different} answers that differ")
        count += different
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
