"""Membership of a consumer group, in the classic protocol and in that of KIP-848, and the heartbeats of share groups.

This room owns joins, heartbeats, the assignors of a classic group, and the encoding of subscriptions and assignments.
It leaves the partitions themselves to `consuming`: a member reports them as revoked only after the consumer has stopped
reading them.
"""
