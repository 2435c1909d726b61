"""What benchmarks share that compare several of a kind: brokers (`bench.peers`), clients (`bench.clients`), formats of
Spark (`bench.spark`).

    command       arguments, who of a table can be had, progress on stderr, the file with every number
    rounds        turns: each round runs every workload once on every contestant, in an order that rotates
    figures       medians and spreads, speeds relative to one contestant, their tables
    picture       these speeds, as SVG
    machine       what a reader must know of this machine, and what is done to it before a run
    interpreters  the compiled oncelog, and modules of the benchmark that run under another interpreter

A comparison is one run on one machine: the contestants take turns, so that what else the machine does meets all of
them, and the medians of the rounds are compared. The first turns are a warm-up and are not counted.
"""
