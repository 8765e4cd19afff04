"""Classic groups: the members agree on a protocol, one of them makes the assignment, everybody gets a part.

`group` has a group's requests; the table in `states` says what each of them gets. `roster` is who is in it,
`rebalance` how it gets from one generation to the next, `generation` what its members have agreed on.
"""
