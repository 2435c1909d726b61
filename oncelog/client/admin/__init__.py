"""The administrator: topics, settings, groups, transactions, users, rights and tokens of a cluster.

This room owns `Admin`, the requests that only administrators send, and the descriptions that they return, with one
module for each kind of object. It leaves connections and retries to `wire`, and the encoding of what members of a group
exchange to `groups`. A command imports only the kind that it asks about, since `Admin` imports the others when they are
called.
"""
