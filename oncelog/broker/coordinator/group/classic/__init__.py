"""Classic groups: members wait for each other in a rebalance, and the leader assigns (JoinGroup, SyncGroup)."""
