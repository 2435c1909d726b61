"""Looks for bytes that break the broker: one seed gives one run, and a run that breaks it is cut down to what does.

Owns: which actions a run has, and how a failing list of them is made short.
"""

import json
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.broker_in_memory import Action, Stage, crash_seed, play_all
from tests.fuzz.conversation import TooSlow
from tests.fuzz.frames import request_frame, stream
from tests.fuzz.requests import Requests, World

ACTIONS_OF_A_RUN = 400
_CLIENTS = ("a", "b", "c", "d")
GUARDED = [
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
    "auto.create.topics.enable=true",
]
"""The good client may do everything, the others nothing."""
_SETTINGS = ([], [], ["oncelog.record.validation=full"], ["auto.create.topics.enable=true"], GUARDED)
_REPLAYS = 400


@dataclass(frozen=True, slots=True)
class Found:
    """A failure, and the fewest actions found that cause it."""

    seed: int
    signature: str
    what: str
    settings: list[str]
    actions: list[Action]

    def as_json(self) -> str:
        return json.dumps({"what": self.what, "settings": self.settings, "actions": self.actions}, indent=1) + "\n"


@dataclass(slots=True)
class Tally:
    """Counts of a search, and its slowest and largest actions."""

    runs: int = 0
    frames: int = 0
    answers: int = 0
    slowest: tuple[float, int, str] = (0.0, 0, "")
    largest: tuple[int, int, str] = (0, 0, "")


def run(
    seed: int, tally: Tally, action_count: int = ACTIONS_OF_A_RUN, settings: list[str] | None = None
) -> Found | None:
    """One run on a fresh broker, with settings of the seed's choice unless there are others."""
    source = Random(seed)
    chosen = source.choice(_SETTINGS)
    settings = chosen if settings is None else settings
    measures_memory = source.random() < 0.2
    stage = Stage(settings, measures_memory)
    world = World(source)
    requests = Requests(world)
    played: list[Action] = []
    tally.runs += 1
    for action in _all_actions(requests, source, tally, action_count):
        played.append(action)
        try:
            answers = stage.play(action)
        except TooSlow as error:
            if _breaks(settings, played, measures_memory) == _signature(error):
                return _found(seed, error, settings, played, measures_memory)
            return None  # The machine was slow, not what was asked.
        except Exception as error:
            return _found(seed, error, settings, played, measures_memory)
        tally.answers += len(answers)
        for answer in answers:
            world.learn(answer)
    tally.slowest = max(tally.slowest, stage.slowest)
    tally.largest = max(tally.largest, stage.largest)
    return None


def _found(seed: int, error: Exception, settings: list[str], played: list[Action], measures_memory: bool) -> Found:
    signature = _signature(error)
    shortest = shorten(played, lambda actions: _breaks(settings, actions, measures_memory) == signature)
    return Found(seed, signature, "".join(traceback.format_exception(error)[-6:]), settings, shortest)


def _all_actions(requests: Requests, source: Random, tally: Tally, action_count: int) -> Iterator[Action]:
    """Lazily: what is sent depends on what was answered."""
    for number in range(action_count):
        yield from _actions(requests, number, source, tally)
    yield from (["pass", 600_000], ["canary"], ["stop", crash_seed(source)], ["canary"])


def _actions(requests: Requests, number: int, source: Random, tally: Tally) -> list[Action]:
    name = source.choice(_CLIENTS)
    kind = source.random()
    if number % 40 == 0:
        return [["canary"]]
    if kind < 0.03:
        return [["pass", source.choice((1, 100, 1_000, 10_000, 70_000))]]
    if kind < 0.06:
        return [[source.choice(("open", "close", "pause", "resume", "resume")), name]]
    if kind < 0.065:
        return [["stop", crash_seed(source)]]
    spoilt = source.choice((0.05, 0.05, 0.5))
    frames = []
    for _ in range(source.choice((1, 1, 1, 2, 5))):
        api, version, message = requests.next()
        correlation_id = source.choice((number, number, number, 0, -1))
        frames.append(request_frame(api, version, message, correlation_id, source, spoilt))
    tally.frames += len(frames)
    at_once = source.choice(([], [], ["at once"]))
    return [["bytes", name, chunk.hex(), *at_once] for chunk in stream(frames, source, spoilt)]


def _breaks(settings: list[str], actions: list[Action], measures_memory: bool) -> str | None:
    try:
        play_all(settings, actions, measures_memory)
    except Exception as error:
        return _signature(error)
    return None


def _signature(error: BaseException) -> str:
    """Identify an error by its kind and place; that must stay the same while the actions get fewer."""
    frames = traceback.extract_tb(error.__traceback__)
    at = frames[-1] if frames else None
    return f"{type(error).__name__} {at.filename if at else ''}:{at.lineno if at else 0}"


def shorten(actions: list[Action], still_breaks: Callable[[list[Action]], bool]) -> list[Action]:
    """Fewer and fewer actions that break it in the same way: halves, quarters, down to single ones."""
    replays = 0
    size = max(1, len(actions) // 2)
    while size and replays < _REPLAYS:
        start = 0
        while start < len(actions) and replays < _REPLAYS:
            fewer = actions[:start] + actions[start + size :]
            replays += 1
            if still_breaks(fewer):
                actions = fewer
            else:
                start += size
        size //= 2
    return actions


def load(path: Path) -> tuple[list[str], list[Action]]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found["settings"], found["actions"]
