"""The broker's image and clients in containers of their own, and what may happen between them.

A scenario (`test_*.py`) runs outside and says what is done where; it uses no Kafka client itself. Each client lives in
a container, in a process that does what it reads from its standard input, one call a line (`worker`), with the bundled
client or with librdkafka behind the same methods (`clients`). `containers` starts these processes, and kills, stops,
disconnects and heals containers with podman or docker.

    scenario  --exec -i-->  worker in container "alice"  --Kafka's protocol-->  container "broker"
        |                                                                             ^
        +------------------ kill, restart, disconnect, connect -----------------------+

`.ci/compose-test` builds the images and runs the scenarios. Without a container engine to command (inside the service
`tests`, by `docker compose run --rm tests`) the workers are processes beside the test, and scenarios that kill or cut
are skipped.
"""
