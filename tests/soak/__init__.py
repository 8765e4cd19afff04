"""An hour under mixed load: does anything grow, and is every acknowledged record accounted for?

slopes    a series of samples, the slope of it with its error, and whether that is flat
samples   memory, descriptors, threads and children of processes, as the kernel says
ledger    what was acknowledged, against what was read
traffic   writers, readers, a compacted table, and visitors with topics, groups and transactions of their own
run       `make soak`: a cluster and a broker alone, restarted meanwhile, and the verdict
"""
