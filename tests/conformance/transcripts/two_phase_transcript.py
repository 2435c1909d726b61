"""Conversations about two-phase commit as far as Apache Kafka 4.3 has it, and about the loss of `__transaction_state`.

Owns: the questions. Both are asked in a broker of their own, since both change what all transactions see.
"""

from typing import Any

from oncelog.protocol.api_keys import ApiKey
from tests.clients.asking import Broker, Told, name
from tests.clients.conversation import IMPLICIT, TOPIC, Conversation, Producer, ends
from tests.conformance.transcripts.transaction_transcript import prepare

_TIMEOUTS_MS = (-1, 0, 60_000, 900_000, 900_001, 2**31 - 1)
_STATE = "__transaction_state"


def two_phase(broker: Broker, wall_ms: int) -> Told:
    """InitProducerId 6 with every flag; `broker` must be fresh, and serve that version."""
    talk = Conversation(broker, wall_ms)
    prepare(talk)
    versions = talk.ask("ApiVersions", 4, client_software_name="a", client_software_version="1").api_keys
    yield "offered", [api.max_version for api in versions if api.api_key == ApiKey.INIT_PRODUCER_ID]
    nobody = Producer(talk, "", -2, -1)
    for flags in (
        {},
        {"enable2_pc": True},
        {"keep_prepared_txn": True},
        {"enable2_pc": True, "keep_prepared_txn": True},
    ):
        what = " ".join(flags) or "no flags"
        for transactional_id in (None, "", f"with {what}"):
            for timeout_ms in _TIMEOUTS_MS:
                answer = talk.init(transactional_id, 6, transaction_timeout_ms=timeout_ms, **flags)
                given = nobody.pair(answer), answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch
                yield f"{what}, id {transactional_id!r}, timeout {timeout_ms}", given
        half = talk.init("half", 6, producer_id=5, **flags)
        yield f"{what}, half a pair", nobody.pair(half)
        yield f"{what}, over an open transaction", _over_an_open_one(talk, f"open {what}", flags)
    yield "timeout with two-phase commit", _timeout(talk)


def _over_an_open_one(talk: Conversation, transactional_id: str, flags: dict[str, bool]) -> Any:
    producer = talk.started(transactional_id)
    if producer.write(1, version=IMPLICIT) != "NONE":
        raise AssertionError(transactional_id)
    answer = producer.pair(talk.init(transactional_id, 6, **flags))
    state = talk.settled(transactional_id)
    if state.startswith("Ongoing"):
        producer.ended(False, 5)
    return answer, state


def _timeout(talk: Conversation) -> Any:
    if talk.init("two phase", 6, enable2_pc=True).error_code:
        return "refused"
    producer = talk.started("two phase", version=6, enable2_pc=True)
    producer.write(1, version=IMPLICIT)
    timeout_ms = talk.described("two phase").transaction_timeout_ms
    return timeout_ms, producer.end(True, 5)


def without_state(broker: Broker, wall_ms: int) -> Told:
    """`__transaction_state` is deleted under ids in several states; `broker` must be fresh."""
    talk = Conversation(broker, wall_ms)
    prepare(talk)
    ended, opened, unused = talk.started("ended"), talk.started("opened"), talk.started("unused")
    opened.write(0, version=IMPLICIT)
    ended.write(1, version=IMPLICIT)
    after = ended.ended(True, 5)
    deleted = {"topic_names": [_STATE], "timeout_ms": 10_000}
    yield "deletion", talk.ask("DeleteTopics", 5, "responses.0.error_code", **deleted)
    while unused.end(True) != "NOT_COORDINATOR":  # the broker notices a little later
        talk.broker.let_pass(100)
    for producer in (opened, after, unused):
        yield f"{producer.transactional_id}, no topic", _asked(producer)
    yield "listed", _listed(talk)
    while talk.ask("FindCoordinator", 2, key="any", key_type=1).error_code:
        talk.broker.let_pass(100)
    while unused.end(True) in ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"):
        talk.broker.let_pass(100)
    for producer in (opened, after, unused):
        yield f"{producer.transactional_id}, a new topic", _asked(producer)
    yield "listed again", _listed(talk)
    high_watermark, last_stable_offset = ends(talk, TOPIC)
    yield "what was open hangs", last_stable_offset < high_watermark
    new = talk.started("opened")
    yield "a new instance has another id", new.producer_id != opened.producer_id
    yield "a new instance", (new.producer_epoch, new.write(1, version=IMPLICIT), new.end(True, 5))


def _asked(producer: Producer) -> Any:
    return [
        producer.end(True),
        producer.end(True, 5),
        producer.add(1),
        producer.add_offsets(),
        producer.add_batched(1),
        name(producer.talk.described(producer.transactional_id).error_code),
    ]


def _listed(talk: Conversation) -> Any:
    return talk.ask("ListTransactions", 0, "error_code transaction_states{transactional_id}")
