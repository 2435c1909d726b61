"""The settings of the node's addresses, of connections, and of requests in general.

Owns: a table of `broker.config.broker_keys`.
"""

from oncelog.broker.config.config_key import INT32_MAX, ConfigKey, ConfigType


def _parse_connection_limits(text: str) -> object:
    from oncelog.broker.config.connection_limits import parse_connection_limits  # not at the start

    return parse_connection_limits(text)


_STRING, _LIST, _INT, _LONG = ConfigType.STRING, ConfigType.LIST, ConfigType.INT, ConfigType.LONG

NETWORK_KEYS = (
    # The node and its addresses.
    ConfigKey(
        "node.id",
        _INT,
        "1",
        "The id of this node, of which each of several needs another; required in Kafka, 1 here.",
        0,
    ),
    ConfigKey("broker.id", _INT, "-1", "The older name of node.id.", -1),
    ConfigKey("broker.rack", _STRING, None, "The rack of this node, which Metadata and DescribeCluster show."),
    ConfigKey("cluster.id", _STRING, None, "The cluster id of a new data directory; random when empty."),
    ConfigKey("listeners", _LIST, "PLAINTEXT://127.0.0.1:9092", "Addresses to listen on; loopback by default here."),
    ConfigKey("advertised.listeners", _LIST, None, "Addresses advertised to clients; those of listeners when empty."),
    ConfigKey(
        "listener.security.protocol.map",
        _STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Listener names and their security protocols: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.",
    ),
    ConfigKey("controller.listener.names", _LIST, None, "Listeners of the controller, which are not opened here."),
    ConfigKey("log.dirs", _LIST, None, "The data directory; one here."),
    ConfigKey("log.dir", _LIST, "oncelog-data", "The data directory when log.dirs is not set; ./oncelog-data here."),
    # Connections.
    ConfigKey("connections.max.idle.ms", _LONG, "600000", "An idle connection is closed after this time; -1: never."),
    ConfigKey("max.connections", _INT, str(INT32_MAX), "Maximum number of connections; more wait to be accepted.", 0),
    ConfigKey("max.connections.per.ip", _INT, str(INT32_MAX), "Maximum number from one address; more are closed.", 0),
    ConfigKey(
        "max.connections.per.ip.overrides",
        _STRING,
        "",
        "host:count,…: addresses with a separate limit.",
        parse=_parse_connection_limits,
    ),
    ConfigKey("max.connection.creation.rate", _INT, str(INT32_MAX), "Maximum number of new connections per second.", 0),
    ConfigKey("socket.listen.backlog.size", _INT, "1024", "Connections that wait to be accepted; 1024 here.", 1),
    ConfigKey("socket.receive.buffer.bytes", _INT, "-1", "SO_RCVBUF; -1, the default here, leaves it to the OS.", -1),
    ConfigKey("socket.send.buffer.bytes", _INT, "-1", "SO_SNDBUF; -1, the default here, leaves it to the OS.", -1),
    # Requests.
    ConfigKey("quota.window.num", _INT, "11", "Samples over which the rates of client quotas are measured.", 1),
    ConfigKey("quota.window.size.seconds", _INT, "1", "The time of each of these samples.", 1),
    ConfigKey(
        "controller.quota.window.num",
        _INT,
        "11",
        "Samples' worth of controller_mutation_rate that may be used at once.",
        1,
    ),
    ConfigKey("controller.quota.window.size.seconds", _INT, "1", "The time of each of these samples.", 1),
    ConfigKey("socket.request.max.bytes", _INT, "104857600", "The largest request that is accepted.", 1),
    ConfigKey(
        "queued.max.requests", _INT, "500", "Requests of one connection (here) without a response before it waits.", 1
    ),
    ConfigKey(
        "max.request.partition.size.limit",
        _INT,
        "2000",
        "Maximum number of partitions in one DescribeTopicPartitions response.",
        1,
    ),
    ConfigKey(
        "queued.max.request.bytes",
        _LONG,
        "268435456",
        "Memory for requests that are incomplete or not started yet; 256 MiB here, -1: no limit.",
    ),
    ConfigKey(
        "oncelog.unread.answers.max.bytes",
        _LONG,
        "268435456",
        "Memory for unsent responses; near it, a Fetch returns less at a time.",
        1048576,
    ),
    ConfigKey("fetch.max.bytes", _INT, "57671680", "Maximum number of bytes in one Fetch response.", 1024),
    ConfigKey(
        "max.incremental.fetch.session.cache.slots", _INT, "1000", "Maximum number of fetch sessions in the cache.", 0
    ),
)
