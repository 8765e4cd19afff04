"""Side-by-side benchmarks: `python -m bench [W1 W2 ...] [--quick]`.

servers, apache, mock_server   the peers: Ottla, Apache Kafka, librdkafka's mock cluster
load, load_bulk, load_raw, load_single, load_transactions, rdkafka, wire   the load generators, each run in a
                               process of its own
common_loads                   what more than one workload asks of them
bystander, page_cache          a small producer beside something large; what of a log is in memory
clusters, wire_cluster, load_steady   three brokers of a kind, and what is asked of them
w1_* to w11_*, wb_*, wc_*, wg_*, wl_*, wn_*, ws_*, wt_*   a file per workload; `run` gives an Outcome
w12_spark, spark_session, spark_connector   Spark: two sources in one session, beside each other
workload                       what they share: sizes, rounds, turns
paired, guard, guard_script    what a change costs: by the clock, in turns; in steps of the interpreter
interpreter, cpu_clock         which Python this is; processor time finer than ticks
plots, bars, tables            pictures and tables of what was measured, from the files that runs leave
targets, report                what we promised, and how the figures are shown and stored

Rules. The same client drives every broker. All peers are up during a run and take turns, round by round,
so a ratio never compares two different moments of the machine. Broker CPU-seconds stand beside every
rate: with few cores the client is often the bottleneck. A broker is measured from outside, through its
command line and its port; only `arrow` imports `ottla`, whose decoding it times. A peer that cannot run
is a row that says why. Everything has a deadline, and no process or folder outlives a run.
"""
