"""Share groups in the group coordinator (KIP-932): members, assignments, and which share-partitions a group has.

A share group resembles a consumer group without ownership: several members may be assigned the same partition, so a
member moves to its target in one step, and nothing is revoked first.

What a group has read is not an offset in `__consumer_offsets` but the state of a share-partition, which the share
coordinator keeps. The group coordinator only knows which states exist, in a record of the group:

    initializing --(the share coordinator has made the state)--> initialized --> assigned to members
    initialized  --(DeleteShareGroupOffsets, DeleteGroups)-----> deleting ----> forgotten

Each arrow is a record. A crash between two of them leaves the partition at the last one, and the next heartbeat, or
the next request to delete, repeats the step: to make or to delete a state twice is as good as once.
"""
