"""The administrator: topics, settings, groups, transactions, users, rights and tokens of a cluster.

Owns: `Admin`, the requests that only administrators send, and the descriptions that they return, one module for each
kind of object. Does not own: connections and retries (`wire`), nor what members of a group encode (`groups`). A command
imports only the kind that it asks about: `Admin` imports the others when they are called.
"""
