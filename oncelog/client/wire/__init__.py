"""The way to the brokers: connections and logins, leaders and coordinators, and the requests that are sent.

Owns: sockets, TLS and SASL, the cache of the cluster's metadata, retries of requests to a node, to any node or to a
coordinator, and which versions of a request this client sends. Does not own: what requests are for, except offset
look-ups, which consumers, groups and administrators share.
"""
