"""What every other room stands on, and which knows nothing of ours: error codes, ids, config rows, the disk.

Rule: nothing here imports another package of Ottla, a clock or a network. `files` is the door to the disk
for all that is pure; `weakly` calls an object without keeping it; `file_lock`, `private_file` and
`properties` are for those who start and connect.
"""
