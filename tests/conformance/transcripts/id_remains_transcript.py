"""What is left of transactional ids and producers whose time is over, until the next clean-up and after it, as any
Kafka-compatible broker can be asked.

Owns: the questions. The broker must be fresh, forget ids and producers after two idle seconds, and look for them every
twenty seconds of its conversation. Does not own: groups (`group_remains_transcript`).
"""

from tests.clients.asking import Broker, Told, name
from tests.clients.conversation import Conversation, Producer
from tests.conformance.transcripts.transaction_transcript import prepare

IDLE = ("transactional.id.expiration.ms=2000", "producer.id.expiration.ms=2000")
_OFTEN_MS = 20_000
KAFKAS_INTERVALS = (
    f"transaction.remove.expired.transaction.cleanup.interval.ms={_OFTEN_MS}",
    f"producer.id.expiration.check.interval.ms={_OFTEN_MS}",
)
_IDLE_MS = 4_000
TOPIC = "remains"


def _producers(talk: Conversation, *known: Producer) -> list[int]:
    """The places of those that the partition knows."""
    found = {each.producer_id for each in talk.producers(TOPIC).active_producers}
    return [place for place, producer in enumerate(known) if producer.producer_id in found]


def conversation(broker: Broker, wall_ms: int) -> Told:
    """Every question and its answer."""
    talk = Conversation(broker, wall_ms)
    prepare(talk)
    talk.create_topic(TOPIC)
    for when, idle_ms in (("its time is over", _IDLE_MS), ("after the clean-up", _OFTEN_MS + _IDLE_MS)):
        ids = {what: talk.started(f"{what} {when}") for what in ("described", "resumed", "new instance", "added to")}
        plain = [talk.started(None) for _ in range(3)]
        for producer in plain:
            for sequence in range(2):
                assert producer.write(0, topic=TOPIC, sequence=sequence, transactional=False) == "NONE"
        broker.let_pass(idle_ms)
        yield f"{when}: described", name(talk.described(ids["described"].transactional_id).error_code)
        yield f"{when}: resumed", ids["resumed"].resume()
        yield f"{when}: a new instance", ids["new instance"].renew()
        yield f"{when}: a partition is added", ids["added to"].add(0, topic=TOPIC)
        yield f"{when}: known to the partition", _producers(talk, *plain)
        end = talk.produce(None, topic=TOPIC)[1]
        error, base_offset = plain[1].produce(0, topic=TOPIC, sequence=1, transactional=False)
        yield f"{when}: a retry", (error, "written" if base_offset > end else "duplicate")
        yield f"{when}: a gap", plain[2].write(0, topic=TOPIC, sequence=7, transactional=False)
