"""`oncelog demo outbox`: exactly once from PostgreSQL over Kafka into PostgreSQL, and all of it killed.

A bank has accounts in a database. Each transfer is a SQL transaction that changes two of them, and publishes itself
with `oncelog.produce`; some roll back. `oncelog outbox run` relays what is committed to the broker. A consumer adds
what it reads to balances in another database, with its offsets there (`oncelog.sql_offsets`). A second one does the
same in the usual way, with auto-commit: both are in `balances`, and their difference is what this is about.

Meanwhile relay, consumers and broker are killed with SIGKILL, and the bank's server crashes. In the end both ledgers
are compared with the bank: to the cent for each account, and each transfer by its number.

`bank` is the first database and its writers, `ledgers` the second one and the topic, as they are counted, `experiment`
what happens to the processes, `show` what is seen of it. Nothing is simulated.
"""
