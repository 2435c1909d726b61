"""Several brokers over one set of tables: one leads, the others stand by.

Who owns the truth
- Of who leads: the lease in the tables (`storage.shared.lease`). Each statement that writes compares its epoch, so
  nothing here is needed for safety; what is here makes a change of leader quick, and seen by clients as a wait.
- Of what a node that stands by tells its clients: the metadata log in the tables (`follower`), which nobody but the
  leader appends to, and the rows of the nodes (`roster`).

The one way that data flows: a node keeps its row and looks at those of others (`roster`). While another leads, it
replays what the leader appends to the metadata log, and answers from that which nodes there are and who leads
(`broker.assembly.standby`). Once the lease is free it takes it, forgets what it has followed, and starts as any broker
starts (`node`). A process gives it what it needs for that (`process`): sockets and connections in the daemon
(`broker.daemon.succession`), neither in simulation.
"""
