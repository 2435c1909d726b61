"""`make bench`: this broker beside others that speak Kafka's protocol, with one client, in one run.

    contestants   a table: how to get each broker, how to start it, its version
    broker        a running contestant: its first answer, processor time, memory, syncs
    workloads     a table: what the client does, and what that counts
    run           starts and rounds; what went wrong does not end them
    report        tables and the block of docs/compare/performance.md; speeds are relative to Apache Kafka's

Turns, medians, tables, pictures and the facts of the machine are those of `bench.harness`.

All brokers run from the beginning to the end, and all but the measured one are idle. A broker that was started anew
for each workload would be measured cold, and a JVM takes seconds to warm up. What an idle one costs the others is
measured, too: its processor time while nobody asks it anything is in the report.

Before the first round each workload runs once on each contestant and is not counted. Before each measurement the
system writes back what earlier ones left in its page cache, so that none pays for the writes of another.

Syncs are counted by strace, with a broker of its own, after the rounds: of these brokers only ours counts any (rounds,
not calls), and /proc has no such number. A filter in the kernel (seccomp) stops only the calls that are counted.
"""
