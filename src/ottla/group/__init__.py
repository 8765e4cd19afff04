"""Consumer groups and their offsets: who reads which partition, and how far everybody got.

`shard` is the state behind one partition of `__consumer_offsets`: its groups and their committed `offsets`.
What it needs of a group is in `group`; a group is either `classic/` (its members agree on an assignment that
one of them makes) or `consumer/` (KIP-848: the coordinator makes it, and members reconcile). `records` is how
all of that is stored, in Kafka's formats, so that Kafka's tools can read the topic. Rule: an operation
decides in a `Turn`; stored state changes only in `replay`.
"""
