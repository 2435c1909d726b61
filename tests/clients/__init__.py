"""Clients of the tests: each builds requests of some kind, asks a broker, and says in short what it answered.

`wire` asks over sockets as `tests.fakes.broker` asks in memory; several others take either (`group_members.Broker`):

    administration             topics, records, settings and features, in one line each
    producer                   a transactional producer of one broker in memory, in the versions that a test asks for
    conversation               a transactional producer whose answers are recorded, from ours and from Apache Kafka
    offset_producer            a transactional producer that only commits offsets
    copier                     the coordinator requests of a copier, in librdkafka's versions
    group_members              members of classic groups; their offsets
    consumer_group_members     members of consumer groups (KIP-848)
    fetch_session              a reader that keeps a fetch session (KIP-227)
    simulated                  clients of the simulation, as generators, which note down what they saw
    in_memory_connection       a connection without a socket

Does not own: tests; what is asked when. Nothing here imports a test.
"""
