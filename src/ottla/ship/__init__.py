"""Shipping log files: every line becomes a record, once, whatever becomes of file, shipper or broker.

    shipper   the loop: read, send, wait for the acknowledgements, store the positions
    watch     which files there are: renamed, copied and cut, removed, replaced
    files     one file that is followed: its whole lines, its fingerprint
    topic     sending, and finding in the topic what an earlier run has sent
    state     how far each file has gone, stored durably between runs

Rules: nothing is printed, a person is told through `say`; the command line (`cli/ship`) only starts it. Not
obvious: the state may be behind the topic, never before it, and what it lacks is read back from the topic.
"""
