"""What this broker says of each API that it serves: one descriptor for each API key, and nothing else.

**Types.** An `Api` (`descriptor`) is a frozen value: the versions that are served, the first version of transactions
version 2, which of several nodes answers (`Owner`), what must be imported before the first request (`Need`), whether
the code of its messages is written ahead, the rights that a request needs (`Rights`), what a read-only broker answers
(`Refused`), where its response has errors (`Errors`), what a fault rule and the witness do with it, and whether its
clients are charged.

**Source of truth.** `clients` has the APIs of producers, consumers, groups and transactions, `administration` those of
administrators, of the cluster and of share groups. `table` puts them together as `API_TABLE`, by key. No other module
lists APIs for one of these purposes.

**One data flow.** The readers ask the descriptor once for each API, when its code is imported, not for each request:

    descriptor ──▶ ApiVersions, the version gate and imports        `dispatch`, `handlers.api_versions`, `net.login`
               ──▶ what is put around its handler                   `handlers.rights`, `handlers.read_only`,
                                                                    `handlers.standby`, `handlers.current`,
                                                                    `throttling`, `witness`
               ──▶ the error of a fault rule                        `faults`
               ──▶ whose code is written ahead                      `make generate` (`tools.write_codecs`)
               ──▶ compatibility.md, security.md, add-an-api.md     `tools`, and the tests that hold the pages

Descriptors are data: behaviour is named by strings (`"topics.Metadata"` is a class of `handlers.rights.topics`), which
its reader resolves, so a start imports no handler for them. docs/contribute/add-an-api.md shows how to add one.
"""
