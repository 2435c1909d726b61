"""Writes conversations down as frames that any broker can be sent, with what counts of Kafka's answers.

    python -m tests.conformance.tape

Owns: what of a request depends on the broker (producer ids, the time, the checksum over both), what of an answer counts
(error codes, epochs, offsets, states, whose producer id), and which requests are sent again until their answer fits.
`test_against_kafka` holds our broker to Kafka's answers, so the frames are taken from it; what it answers otherwise on
purpose is expected of no broker.
"""

import gzip
import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from oncelog.protocol.headers import encode_request_header, encode_response_header
from oncelog.protocol.message import Message
from tests.conformance.replay import FRAMES, Step
from tests.conformance.transaction_recordings import CONVERSATIONS, DIFFERENCES, virtual_broker
from tests.fakes.broker import Reply

TAPED = ("transactions", "prepared", "appends", "partitions")
FIRST_PRODUCER_ID = 0x4F4E_4345_4C00_0000
"""Producer ids that are found in a frame, since nothing else looks like them."""
_PREFIX = FIRST_PRODUCER_ID.to_bytes(8, "big")[:5]
_MADE_UP = 500_000
_WIDTHS = {
    "error_code": 2,
    "partition_error_code": 2,
    "producer_epoch": 2,
    "base_offset": 8,
    "offset": 8,
    "producer_id": 8,
}
_LOOKS = ("DescribeTransactions", "ListOffsets")
"""Requests by which a question sees what has come of it."""
_PAUSE_MS = 20


class Tape:
    """A broker to the conversation; each request becomes a step."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        self.broker = virtual_broker(conversation, "2")
        self.broker.broker.transactions.skip_producer_ids_to(FIRST_PRODUCER_ID)
        self.wall_ms = self.broker.time.wall_ms()
        self._given: set[int] = set()
        self._steps: list[Step] = []
        self._paused_ms = 0

    def send(self, request: Message, version: int, *, client_id: str = "transcript") -> Reply:
        reply = self.broker.send(request, version, client_id=client_id)
        while not reply.is_there:
            self.broker.let_pass(_PAUSE_MS)
        step = self._sent(request, version, client_id) | self._answered(request, reply.message, version)
        is_same = bool(self._steps) and self._steps[-1]["send"] == step["send"] and self._paused_ms > 0
        if is_same:
            self._steps[-1] = step | {"waits": True}
        else:
            self._steps.append(step | ({"pause_ms": self._paused_ms} if self._paused_ms else {}))
        self._paused_ms = 0
        return reply

    def ask(self, request: Message, version: int) -> Any:
        return self.send(request, version).message

    def let_pass(self, delay_ms: int) -> None:
        self._paused_ms += delay_ms
        self.broker.let_pass(delay_ms)

    def steps_of(self, question: str) -> list[Step]:
        """Return the steps since the last question. All but the request that is the question may be sent again."""
        steps, self._steps = self._steps, []
        asked = [step for step in steps if step["api"] not in _LOOKS] or steps
        differs = question in DIFFERENCES.get(self.conversation, {})
        for step in steps:
            if step is asked[-1]:
                step["question"] = question
            if step is not asked[-1] or step["api"] in _LOOKS:
                step["again"] = True
            if differs:
                step.pop("expect", None)
        return [{"conversation": self.conversation, **step} for step in steps]

    # --- frames -------------------------------------------------------------------------------------------------------

    def _sent(self, request: Message, version: int, client_id: str) -> Step:
        module = import_module(type(request).__module__)
        flexible = module.FLEXIBLE_FROM is not None and version >= module.FLEXIBLE_FROM
        header = encode_request_header(module.API_KEY, version, 1, client_id, flexible)
        frame = b"".join((header, *module.encode(request, version)))
        step: Step = {"api": module.NAME.removesuffix("Request"), "version": version, "send": frame.hex()}
        ids = [_slot(frame, at) for at in _places(frame, _PREFIX)]
        if ids:
            step["producer_ids"] = ids
        records = [data.records for topic in getattr(request, "topic_data", ()) for data in topic.partition_data]
        if records:
            batch = bytes(records[0])
            start = frame.index(batch)
            step["times"] = list(_places(frame, self.wall_ms.to_bytes(8, "big")))
            step["crc32c"] = [start + 17, start + 21, start + len(batch)]
        return step

    def _answered(self, request: Message, response: Message, version: int) -> Step:
        module = import_module(type(response).__module__)
        expect: list[list[Any]] = []
        take: list[list[int]] = []
        same: list[list[int]] = []
        for message, name in _counted(response):
            at, data = _place_of(module, response, version, message, name)
            value = getattr(message, name)
            if name == "producer_id" and value >= FIRST_PRODUCER_ID:
                number = value - FIRST_PRODUCER_ID
                (same if number in self._given else take).append([at, number])
                self._given.add(number)
            elif at >= 0:
                expect.append([at, data.hex()])
        found = {"expect": expect, "take": take, "same": same, "has": [each.hex() for each in _unordered(response)]}
        return {name: value for name, value in found.items() if value}


def _slot(frame: bytes, at: int) -> list[int]:
    """The place, the number of the producer id, and what is added to it to make one up."""
    number = int.from_bytes(frame[at : at + 8], "big") - FIRST_PRODUCER_ID
    return [at, number % _MADE_UP, number - number % _MADE_UP]


def _places(frame: bytes, wanted: bytes) -> Iterator[int]:
    at = frame.find(wanted)
    while at >= 0:
        yield at
        at = frame.find(wanted, at + len(wanted))


def _results(response: Message) -> list[Any]:
    """The answers to AddPartitionsToTxn, which are in no order when there are several."""
    results = list(getattr(response, "results_by_topic_v3_and_below", ()))
    for transaction in getattr(response, "results_by_transaction", ()):
        results += transaction.topic_results
    return [partition for topic in results for partition in topic.results_by_partition]


def _unordered(response: Message) -> list[bytes]:
    results = _results(response)
    if len(results) < 2:
        return []
    return [each.partition_index.to_bytes(4, "big") + each.partition_error_code.to_bytes(2, "big") for each in results]


def _counted(response: Message) -> Iterator[tuple[Message, str]]:
    """The fields that count, and whose they are; of a list with several entries, none."""
    for name in response.FIELDS:
        value = getattr(response, name)
        if isinstance(value, list | tuple):
            if len(value) == 1 and isinstance(value[0], Message):
                yield from _counted(value[0])
        elif name in _WIDTHS or name == "transaction_state":
            yield response, name


def _place_of(module: Any, response: Message, version: int, message: Message, name: str) -> tuple[int, bytes]:
    """Find the place of a field in the answer's frame by changing it; -1 where this version lacks it."""
    flexible = module.FLEXIBLE_FROM is not None and version >= module.FLEXIBLE_FROM
    header = encode_response_header(1, flexible)
    value = getattr(message, name)
    frame = b"".join((header, *module.encode(response, version)))
    object.__setattr__(message, name, "\x00" * len(value) if isinstance(value, str) else ~value)
    other = b"".join((header, *module.encode(response, version)))
    object.__setattr__(message, name, value)
    if other == frame:
        return -1, b""
    at = next(index for index, (one, two) in enumerate(zip(frame, other, strict=True)) if one != two)
    width = len(value) if isinstance(value, str) else _WIDTHS[name]
    return at, frame[at : at + width]


def tape(conversation: str) -> Iterator[Step]:
    recorder = Tape(conversation)
    for question, _ in CONVERSATIONS[conversation](recorder, recorder.wall_ms):
        yield from recorder.steps_of(question)


def write() -> None:
    # Without the time of day in it, the same frames are the same file.
    with FRAMES.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as lines:
        for conversation in TAPED:
            for step in tape(conversation):
                lines.write(json.dumps(step, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")


if __name__ == "__main__":
    write()
