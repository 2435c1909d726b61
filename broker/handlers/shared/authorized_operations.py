"""What a client may do, as bit sets of AclOperation (KIP-430): everything, as in Kafka without an authorizer.

The sets are those that Kafka 4.3 answers: what can be done to a topic, to a group, and to a cluster.
"""

TOPIC_OPERATIONS = 3576
GROUP_OPERATIONS = 3400
CLUSTER_OPERATIONS = 8096
NOT_ASKED = -(2**31)
"""The field's value when nobody asked."""
