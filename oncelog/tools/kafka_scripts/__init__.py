"""Kafka's command-line scripts by their own names, for compose files, health checks and habits.

People's files call `/opt/kafka/bin/kafka-topics.sh --create --if-not-exists ...` in an init container, or
`kafka-broker-api-versions.sh` as a health check. In the image these are links to one program, which looks at the name
that it was called by:

    kafka-topics.sh ──link──> oncelog-kafka-script ──> SCRIPTS["kafka-topics"] ──> topics.run(options)

`table` is the list of scripts with the options of each; `arguments` reads a command line as Kafka's scripts do
(`--name value`, `--name=value`); each other module answers for some scripts and prints what Kafka's own print, which a
test compares with the Java tools. An option that is not here is an error that names it, never ignored.

New programs should rather use `oncelog topic`, `oncelog record` and so on: they say more, and have JSON.
"""
