"""The witness: mistakes of clients, which the broker reports before production shows them.

A broker sees every request of every client, so it sees mistakes that no single client can: offsets committed beside a
transaction instead of in it, a reader that takes what may be aborted, two instances that fence each other.

**Types.** A `Kind` (`kinds`) is one mistake: how severe it is and what to change. A `Sighting` (`findings`) counts one
kind for one client and one subject (a topic, a group, a transactional id); a `Finding` is what is reported of it.

**Source of truth.** The broker's logs know nothing of this. `Witness` (`witness`) remembers what requests said, in
tables of bounded length (`recent`) that forget what was used least recently and report how much that was. A restart
forgets everything.

**One data flow.**

    request, response ──▶ facts             `requests`, around the handlers of eleven APIs; `facts` reads the messages
    facts ──▶ tables ──▶ sightings          `witness`: plain values in, no message, no network, time from a Clock
    sightings ──▶ JSON                      GET /witness of `broker.admin`; `oncelog witness`, `Broker.findings()`

A broker without `oncelog.witness.enable` imports none of it: `Broker.witness` is None, which is checked once per API
and not per request. docs/operate/witness.md explains each kind to users.
"""
