"""The outside: sockets, threads, signals, SQLite. The only asynchronous room, and the only one with a clock.

`server` owns the broker and carries out its effects, `connection` feeds it frames, `keeper_embedded` and
`worker` do what may block, `lock` keeps a second process off the data, `main` is the life of a broker
process. Rule: every input to the broker happens on the loop's thread, and is followed by
`Server.carry_out`.
"""
