"""The decision tables are Kafka's: each cell was asked of Apache Kafka and agrees with its answer, or says why not."""

import re
from ast import literal_eval
from collections import Counter
from typing import Any

import pytest

from tests.conformance.transaction_cells import (
    ALWAYS_PENDING,
    APPEND,
    NO_PAIR,
    NO_SUCH_EPOCH,
    NOT_BROUGHT_ABOUT,
    NOT_KNOWN,
    ONE_EACH,
    OTHER_LEVEL,
    RETRY_ALONE,
    Asked,
    asked,
)
from tests.conformance.transaction_recordings import CASES, DIFFERENCES, recorded
from tests.conformance.transcripts.partition_transcript import (
    NOT_BY_FRAMES,
    batch_question,
    lines_of_batches,
    lines_of_markers,
    marker_question,
)
from tests.support.logs.append_tables import BATCHES, KINDS, MARKERS, rows
from tests.support.transactions.lives import LIVES, UNKNOWN
from tests.support.transactions.requests import REQUESTS
from tests.support.transactions.tables import Cell, read

ANSWERS = {case: recorded(*case) for case in CASES}
for (name, _), answers in ANSWERS.items():
    answers.update({question: repr(answer) for question, (_, answer) in DIFFERENCES.get(name, {}).items()})
CELLS = [
    (request, cell, kind, outcomes[kind])
    for request, (tables, _) in REQUESTS.items()
    for cell, outcomes in read(tables)
    for kind in (0, 1)
]
REASONS = (
    APPEND,
    ALWAYS_PENDING,
    ONE_EACH,
    NOT_BROUGHT_ABOUT,
    NOT_KNOWN,
    NO_SUCH_EPOCH,
    RETRY_ALONE,
    OTHER_LEVEL,
    NO_PAIR,
)
_FENCED_SINCE = {"InitProducerId": 4, "AddPartitionsToTxn": 2, "AddOffsetsToTxn": 2, "EndTxn": 2}


def error_of(answer: Any) -> str:
    """The answers to one partition, to a batch of one, with a pair and without."""
    while not isinstance(answer, str):
        is_batched = isinstance(answer, tuple) and isinstance(answer[1], list)
        answer = answer[1][0] if is_batched else answer[0]
    return answer


def in_the_words_of(question: str, error: str) -> str:
    """KIP-588: older clients know PRODUCER_FENCED as INVALID_PRODUCER_EPOCH."""
    versions = re.findall(r"(\w+),? v(\d+)", question)
    if error != "PRODUCER_FENCED" or not versions:
        return error
    # Earlier ones say how the state was brought about; a question of `resumed` has the version alone.
    api, version = versions[-1]
    since = _FENCED_SINCE.get(api, _FENCED_SINCE["InitProducerId"])
    return error if int(version) >= since else "INVALID_PRODUCER_EPOCH"


def state_after(cell: Cell, outcome: str, place: Asked) -> str | None:
    """Return the state as described once no markers are on their way; None where the question does not determine it."""
    life, state, _ = cell
    logged = re.search(r"(Empty|Ongoing|PrepareCommit|PrepareAbort) (\d+)( of)?( \+)?", outcome)
    state = state.removeprefix("pending ")
    if place.conversation in ("prepared", "held at the last epoch"):
        return f"{state}, epoch {place.epoch}"
    if logged is None:
        return "TRANSACTIONAL_ID_NOT_FOUND" if state == UNKNOWN else f"{state}, epoch {place.epoch}"
    known = LIVES[life].states[state]
    epoch = int(logged[2])
    if logged[4]:
        epoch = 0  # of the next id, once the markers are written
    elif not logged[3] and known is not None:
        epoch += place.epoch - known.producer_epoch
    return f"{logged[1].replace('Prepare', 'Complete')}, epoch {epoch}"


def check(cell: Cell, outcome: str, place: Asked) -> None:
    answers = ANSWERS[place.conversation, place.level]
    for question in place.questions:
        answer: Any = literal_eval(answers[question])
        has_state = isinstance(answer, tuple) and isinstance(answer[-1], str)
        said, after = answer if has_state else (answer, None)
        code = outcome.split(",")[0]
        code = code if re.fullmatch(r"[A-Z_]+", code) else "NONE"
        assert error_of(said) == in_the_words_of(question, code), question
        if after is not None:
            expected = state_after(cell, outcome, place)
            assert after.removesuffix(", 0 partitions").split(" partitions")[0].startswith(str(expected)), question


@pytest.mark.parametrize("request_name", REQUESTS)
def test_each_cell_that_kafka_was_asked_is_as_kafka_answered(request_name: str) -> None:
    for request, cell, kind, outcome in CELLS:
        if request == request_name:
            places = asked(request, cell, kind, ANSWERS)
            for place in () if isinstance(places, str) else places:
                check(cell, outcome, place)


def test_each_cell_was_asked_or_says_why_it_was_not() -> None:
    reasons = Counter[str]()
    for request, cell, kind, outcome in CELLS:
        places = asked(request, cell, kind, ANSWERS)
        if isinstance(places, str):
            reasons[places] += 1
            # Whatever changes nothing is asked wherever one comes.
            assert places != ONE_EACH or re.search(r"\d", outcome), (request, cell, outcome)
            continue
        assert any(place.questions for place in places), (request, cell)
        for place in places:
            assert set(place.questions) <= set(ANSWERS[place.conversation, place.level]), (request, cell, place)
        reasons["asked"] += 1
    assert set(reasons) == {"asked", *REASONS}
    assert reasons["asked"] > 900


def test_each_line_of_the_tables_of_a_partition_that_kafka_was_asked_is_as_kafka_answered() -> None:
    """Left out are a transactional batch of an epoch that no producer was given, and the last epoch."""
    batches = {batch_question(*line[:5]): line[5] for line in lines_of_batches()}
    markers = {marker_question(*line[:4]): line[4] for line in lines_of_markers()}
    told = {name: literal_eval(answer) for name, answer in ANSWERS["partitions", "2"].items()}
    is_taken = {"ends it": "NONE", "written": "NONE"}
    assert told == batches | {name: is_taken.get(outcome, outcome) for name, outcome in markers.items()}
    left_out = len(rows(BATCHES)) * len(KINDS) - len(batches), len(rows(MARKERS)) * 2 - len(markers)
    assert left_out == (
        len(KINDS[1:]) * sum(epoch == "4" for _, epoch, *_ in rows(BATCHES)),
        2 * sum(state in NOT_BY_FRAMES for state, *_ in rows(MARKERS)),
    )
