"""The console: a cluster and its transactions in a browser (`oncelog console`, extra `console`).

One way that data flows, for a page and for each of its updates alike:

    cluster → reading (requests) → partition_map, life_lines, pending (pure: what it means) → pages → templates

`pages` is the table of all pages: each turns a query into a template and its values. `live` renders the same template
again each second, and sends it as a server-sent event if it has changed; the script in the browser puts it in place.
So nothing is computed in the browser, every page works without the script, and what a page shows has one source.

All of it is asked with Kafka's public requests by our own client, with the reading code of the commands (`oncelog
record`, `txn`, `group`): it shows Apache Kafka as well as this broker.

What clients chose (names, ids, keys, values) is text, never markup: `rendering` escapes each value that a template
shows, `security` refuses all script but the one file, and answers to no name but its own. What changes the cluster is
a POST from a page of the console itself; what destroys something comes after a page that names it. Records that people
type go `forms` → `drafts` (pure) → `writing`.
"""
