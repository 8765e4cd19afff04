"""The outside: sockets, threads, signals, keepers. The only asynchronous room, and the only one with a clock.

`server` owns the broker and carries out its effects, `connection` feeds it frames, `peers` sends its
requests to other brokers, `chores`, `jobs` and `worker` do what may block, `lock` keeps a second process off
the data, `main` is the life of a broker process. `keeper` is the port to coordination, `keeping` the traffic
with it; behind it stand `keeper_local` (SQLite), `keeper_shared` (memory) and `keeper_zookeeper`.

Rule: every input to the broker happens on the loop's thread, and is followed by `Server.carry_out`.
"""
