"""`ottla users`: `commands`, `passwords` (where they come from), and `keepers`, where users are kept,
past the brokers.
"""
