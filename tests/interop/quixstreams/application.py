"""A Quix application: `application.py BOOTSTRAP NAME STATE` copies NAME-source to NAME-sink exactly once, for ever."""

import sys

from quixstreams import Application

bootstrap, name, state = sys.argv[1:]
application = Application(
    broker_address=bootstrap,
    consumer_group=name,
    processing_guarantee="exactly-once",
    auto_offset_reset="earliest",
    commit_every=20,
    commit_interval=0.2,
    state_dir=state,
    auto_create_topics=False,
    consumer_extra_config={"session.timeout.ms": 2000, "heartbeat.interval.ms": 200},
    # One that was left open by an end at an error holds up read_committed no longer than this.
    producer_extra_config={"transaction.timeout.ms": 3000},
)
source = application.topic(f"{name}-source", value_deserializer="string", key_deserializer="bytes")
sink = application.topic(f"{name}-sink", value_serializer="string", key_serializer="bytes")
application.dataframe(source).to_topic(sink)
application.run()
