"""Faults on purpose: what lies between two steps of a transaction, made visible, and stopped at.

**Types.** A `Rule` (`rule`) is a value: at which `Point`, for whom (`Selector`), which time, what `Action`. A
`PlantedRule` (`planted`) is a rule at work: how often it matched and fired, and what it holds. `Faults` (`faults`)
plants, lists, releases and removes them. An `Occurrence` is what happens at a point: the request, marker or append.

**Who owns the truth.** The broker, as ever: its logs and what is replayed from them. This package owns the rules and
what they hold, and nothing else; a held request or marker is simply one that has not come yet. Nothing is changed
behind a coordinator's back: epochs and producer ids are moved on by records, like everything that moves.

**One data flow.** Every fault enters through a port that the broker has anyway, laid over the machine's own:

    request ──▶ handler      `requests` around each handler       REQUEST, ANSWER
    coordinator ──▶ partition  `markers` around the MarkerSender    MARKER, MARKER_WRITTEN
    log ──▶ file             `disk` around the Disk               APPEND, APPENDED
    timers, clocks           `time` around Clock and Scheduler    advanced, or set back
    transitions ──▶ log line  `events` around the listener         told to whoever looks

At each point the parts ask `Faults.fire(occurrence)`: the first planted rule that is due, or None.

A broker that is started without this package has no part of it in its way (`Broker.faults` is None, asked once for each
API and not for each request); `broker.app` imports it only when `oncelog.admin.listen` is set.
"""
