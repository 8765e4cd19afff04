"""The outside: sockets, threads, signals, keepers. A broker's asynchronous room, the only one with a clock.

`server` is a broker's life from start to stop. `core` holds the broker: whoever hears of something (`clients`
of a request, `keeper_session` of a change of the tree, `peers` of an answer, `chores` of a finished piece of
work) gives it to `core`, which has the broker's effects carried out by the same. `connection` is one client,
`jobs` and `worker` do what may block, `lock` keeps a second process off the data, `main` is a broker process.
`keeper` is the port to coordination; behind it stand `keeper_local` (SQLite), `keeper_shared` (memory) and
`keeper_zookeeper`.

What only security needs is loaded when a configuration asks for it: `tls` makes contexts from keys and
certificates, `tls_contexts` has those of all listeners, `handshakes` the clients that begin with it.
`secure_folder` and `certificate_authority` make what somebody needs to try it out.

Rule: every input to the broker happens on the loop's thread, and is followed by `Core.carry_out`.
"""
