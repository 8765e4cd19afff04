"""Compaction: of the records with one key, a compacted log keeps the latest.

    policy         which log is due, and how much of it may be cleaned
    cleaner        what is being cleaned, what comes next, what went wrong; in the broker
    task           what a worker process is asked, and what it answers
    rewrite        the work: two passes over a log, which write new segments beside the old ones
    offset_map     the first pass: the latest offset of each key
    batch_filter   the second pass: what is left of a batch
    record_keys    the keys of a batch's records, read quickly
    swap           the new files take the place of the old ones, safe at any step

Only `policy`, `cleaner`, `task` and `swap` are loaded by a broker; the rest runs in a process of its own.
"""
