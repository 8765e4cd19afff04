"""Transactions: which are open, how they end, and who may end them.

`shard` is the state behind one partition of `__transaction_state`: the transactional ids that hash to it,
each with its producer id, epoch and `transaction`. `states` has what may follow what, `records` how it is
stored, in Kafka's formats. An end is decided once, by writing a Prepare record; when that is committed,
`markers` go to every partition that took part, and when all have them, a Complete record says so. Rule: an
operation decides in a `Turn`; stored state changes only in `replay`.
"""
