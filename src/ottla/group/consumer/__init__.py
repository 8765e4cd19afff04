"""Consumer groups (KIP-848): the coordinator makes the assignment, and each member is led to it by its own
heartbeats.

`group` has a group's requests, `state` what is stored of it, `epochs` what follows when a member changes: a
new `target`, worked out by the `assignors`, and the member's next step (start with the table in
`reconciliation`). `sessions` are the deadlines of members. `classic_members` and `migration` are for groups
whose members still speak, or speak again, the classic protocol.
"""
