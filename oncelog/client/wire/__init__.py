"""The way to the brokers: connections and logins, leaders and coordinators, and the requests that are sent.

This room owns sockets, TLS and SASL, the cache of the cluster's metadata, retries of requests to a node, to any node or
to a coordinator, and the versions of each request that this client sends. It leaves the purpose of a request to those
who send it, except for offset look-ups, which consumers, groups and administrators share.
"""
