"""Which rights a request needs, and what becomes of one that lacks them: as Kafka 4.3's KafkaApis and ControllerApis.

**Types.** The descriptor of each API (`broker.apis`) has its `Rights`: what the request as a whole `needs`, and steps
for what it contains. A `Needed` right that is missing refuses everything. A step looks at parts: `EachRow` takes the
rows that are not allowed out of the request and adds their errors to the response, `Visible` leaves rows out of a
response (`checks`); a few APIs have their own (`topics`, `configs`, `groups`, `transactions`).

**Source of truth.** The authorizer (`broker.security.authorizer`) alone decides; the descriptors alone say what is
asked.
Handlers know of neither.

**One data flow.** `guard` wraps the handler of an API when its code is imported, and only if an authorizer is
configured: without one, no request runs an instruction of this package.

    request ──▶ needs ──▶ step ──▶ handler ──▶ step ──▶ response
                  └──▶ error         (what is allowed)

Fetch alone is checked inside its handler: its partitions are those of its session, not of the request. No API can leave
its rights out: they are a field of the descriptor.
"""
