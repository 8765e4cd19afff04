"""`ottla users`: `commands`, `passwords` (where they come from), and the two places where users are kept:
`brokers`, and `keepers`, past the brokers.
"""
