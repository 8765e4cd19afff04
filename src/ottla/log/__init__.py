"""The log on disk: partitions, segments, indexes, producer state, leader epochs, checkpoints.

Byte-compatible with Apache Kafka's folders. `Log` is one partition, `LogStore` is all of a broker's.
Everything goes through the `Files` port and takes `now_ms`; an `OSError` passes up as a `LogDirectoryError`
and costs the log directory. `compaction/` removes what newer records replace, `verify/` checks a directory
that no broker uses.

The invariant that is not obvious: neither an append nor a roll waits for the disk. What must become durable
is handed out as a `Sync`, which a worker thread runs; `recovery_point` and `safe_end` move only when it is
back. Checkpoints of recovery points and a clean shutdown do wait.
"""
