"""Several brokers over one set of tables: one leads, the others stand by.

Who owns the truth
- Of the leader: the lease in the tables (`storage.shared.lease`). Each statement that writes compares its epoch, so
  nothing here is needed for safety; what is here makes a change of leader quick, and seen by clients as a wait.
- Of the answers of a node that stands by: the metadata log in the tables (`follower`), to which only the leader
  appends, and the rows of the nodes (`roster`).

The one way that data flows: a node keeps its row and looks at those of others (`roster`). While another leads, it
replays what the leader appends to the metadata log, and names the nodes and the leader from that
(`broker.assembly.standby`). Once the lease is free it takes it, forgets what it has followed, and starts as any broker
starts (`node`). Its process (`process`) provides sockets and connections in the daemon (`broker.daemon.succession`),
neither in simulation.
"""
