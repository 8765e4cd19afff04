"""Decide, then replay: the runtime for state that is stored in a log (groups, offsets, later transactions).

An operation runs on one *shard*, the state behind one partition of an internal topic. It decides in a
`Turn`: records to write, answers to give, timers to set. `Runtime` writes the records, replays them into
the shard (the only way stored state changes), and lets the answers go once the records are committed.
Recovery is replay of the same log, so a restarted coordinator knows what the old one had promised and
nothing else.
"""
