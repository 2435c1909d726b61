"""`make proof WHAT=suites`: the tests that other projects have of their own clients, run against this broker, counted.

    suite     what a suite is to the runner, and how the output of each kind of test runner is read
    suites    the table of suites: how each is run, with which settings, and which tests cannot pass, with their reasons
    fetched   how each is fetched and built
    broker    oncelog, over files or PostgreSQL, or Apache Kafka, with the same settings
    run       runs one suite, and continues behind a test that ends or hangs its process
    page      the results, judged, and the page

A test that fails here and fails on Apache Kafka in the same way is no fault; any other failure without a reason in the
table is one. Results stay in docs/compare/other-suites.jsonl, a line for each suite, broker and storage.
"""
