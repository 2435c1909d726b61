"""Fault injection: the states between two steps of a transaction, made visible, with a way to stop there.

**Types.** A `Rule` (`rule`) is a value: at which `Point`, for which requests (`Selector`), how often, what `Action`. A
`PlantedRule` (`planted`) is an active rule: how often it matched and fired, and what it holds. `Faults` (`faults`)
plants, lists, releases and removes rules. An `Occurrence` is what happens at a point: the request, marker or append.

**Source of truth.** The broker, as always: its logs and what is replayed from them. This package owns only the rules
and what they hold; a held request or marker is simply one that has not arrived yet. Nothing changes without the
coordinator: epochs and producer ids are advanced by records, like all state.

**One data flow.** Every fault enters through a port that the broker has anyway, wrapped around the machine's own:

    request ──▶ handler      `requests` around each handler       REQUEST, ANSWER
    coordinator ──▶ partition  `markers` around the MarkerSender    MARKER, MARKER_WRITTEN
    log ──▶ file             `disk` around the Disk               APPEND, APPENDED
    timers, clocks           `time` around Clock and Scheduler    advanced, or set back
    transitions ──▶ log line  `events` around the listener         published to all listeners

At each point the parts call `Faults.fire(occurrence)`: the first planted rule that is due, or None.

A broker that is started without this package does not run any of it (`Broker.faults` is None, checked once per API and
not per request); `broker.daemon.app` imports it only when `oncelog.admin.listen` is set.
"""
