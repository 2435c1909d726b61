"""A client's authorized operations, as bit sets of AclOperation (KIP-430): all, as in Kafka without an authorizer. With
one, `broker.handlers.rights` replaces them by those of the client.

The sets are those that Kafka 4.3 returns: operations on a topic, on a group, and on a cluster.
"""

TOPIC_OPERATIONS = 3576
GROUP_OPERATIONS = 3400
CLUSTER_OPERATIONS = 8096
NOT_ASKED = -(2**31)
"""The field's value if it was not requested."""
