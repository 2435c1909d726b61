"""Membership of a consumer group, in the classic protocol and in that of KIP-848.

Owns: joins, heartbeats, the assignors of a classic group, and the encoding of subscriptions and assignments. Does not
own: what a consumer does with its partitions (`consuming`). Invariant: a member reports partitions as revoked only
after the consumer has stopped reading them.
"""
