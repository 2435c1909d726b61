"""Climbs towards the request that costs most for its bytes: changes frames, and keeps of each API the costliest.

Owns: what is changed and what is kept. Does not own: what a request may cost (`tests.support.requests.costs`), nor the
lies. One seed gives one climb; work is counted, not timed.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.apis.table import API_TABLE
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.headers import encode_request_header
from tests.fuzz.frames import spoil_pieces
from tests.fuzz.layout import Segment, segments
from tests.fuzz.patterns import pattern, setting
from tests.fuzz.requests import request_schema
from tests.support.requests.adversary import Stored, attacks
from tests.support.requests.costs import Cost, cost_of, over_budget
from tests.support.requests.stored import OPENED_TOPICS, costly_batches, full_broker

_LARGEST_FRAME_BYTES = 60_000
_BYTES_OF_ANY_REQUEST = 500
_MEASURES_MEMORY = 0.05
_NEW, _NEW_OF_FEW = 0.3, 0.7
_ANY_API = 0.6
_APIS = tuple(API_TABLE.values())
TAKING_PATTERNS = tuple(
    API_TABLE[key]
    for key in (
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
    )
)
"""APIs whose cost depends on what is written in a field: they are chosen more often than their number among all."""


@dataclass(frozen=True, slots=True)
class Costly:
    """A frame and what it cost."""

    api: Api
    version: int
    pieces: list[Segment]
    frame: bytes
    cost: Cost

    @property
    def calls_a_byte(self) -> float:
        return self.cost.calls / (_BYTES_OF_ANY_REQUEST + len(self.frame))

    def __str__(self) -> str:
        return (
            f"{self.api.name} v{self.version}, {len(self.frame)} bytes: {self.cost.calls} calls, "
            f"{self.cost.longest_turn_calls} in one turn, {self.cost.answered_bytes} bytes answered: "
            f"{self.frame[:200].hex()}"
        )


@dataclass(slots=True)
class Climb:
    seed: int
    frames: int
    costliest: Costly | None
    problem: str | None


def climb(seed: int, *, seconds: float = 0.0, frames: int = 0, apis: Sequence[Api] = ()) -> Climb:
    """Search for so long, or so many frames, of all APIs or of some; stop at the first frame that is over the
    budget.
    """
    source = Random(seed)
    broker, stored = full_broker()
    batches = costly_batches(broker.time.wall_ms())
    kept: dict[str, Costly] = {}
    until = time.monotonic() + seconds
    played = 0
    while played < frames or time.monotonic() < until:
        played += 1
        if not kept or source.random() < (_NEW_OF_FEW if apis else _NEW):
            api = source.choice(apis or (_APIS if source.random() < _ANY_API else TAKING_PATTERNS))
            version = source.choice((api.maximum, source.randint(api.minimum, api.maximum)))
            attack = source.choice(tuple(attacks(api, version)))
            message = attack.message(_asked(stored, batches, source), source.choice((1, 10, 100)))
            pieces = segments(request_schema(api), version, message)
        else:
            parent = source.choice(tuple(kept.values()))
            api, version, pieces = parent.api, parent.version, list(parent.pieces)
            spoil_pieces(pieces, source)
        frame = _frame(api, version, pieces)
        if len(frame) > _LARGEST_FRAME_BYTES:
            continue
        try:
            cost = cost_of(broker, frame, measures_memory=source.random() < _MEASURES_MEMORY)
        except ProtocolError:
            continue
        broker.time.settle()
        costly = Costly(api, version, pieces, frame, cost)
        # What is imported, and made in a broker's life once, is no request's cost: it is asked a second time.
        if over_budget(cost, len(frame), api=api):
            again = cost_of(broker, frame)
            broker.time.settle()
            problems = over_budget(again, len(frame), api=api)
            if problems:
                return Climb(seed, played, costly, f"{problems}: {costly}")
        best = kept.get(api.name)
        if best is None or costly.calls_a_byte > best.calls_a_byte:
            kept[api.name] = costly
    costliest = max(kept.values(), key=lambda each: each.calls_a_byte, default=None)
    return Climb(seed, played, costliest, None)


def _asked(stored: Stored, batches: tuple[bytes, ...], source: Random) -> Stored:
    """Add what clients can write at a cost: patterns, settings and batches. Topics whose batches are opened come
    first.
    """
    return replace(
        stored,
        topics=[source.choice((*OPENED_TOPICS, stored.topics[0])), *stored.topics],
        topic_ids=[stored.topic_ids[0], *stored.topic_ids],
        patterns=(pattern(source),),
        settings=(setting(source),),
        batches=(source.choice(batches),),
    )


def _frame(api: Api, version: int, pieces: list[Segment]) -> bytes:
    flexible = request_schema(api).is_flexible(version)
    return encode_request_header(api.key, version, 1, "fuzz", flexible) + b"".join(piece.data for piece in pieces)
