"""What the broker answers: one file per API, one line per API in the table (`table`).

A handler takes the call and the decoded request, and returns the response, `Parked` if the answer has to
wait, or None where the protocol wants no answer. `dispatch` does the rest: header, version, decoding,
encoding. ApiVersions and the reference documentation are derived from the table, so they cannot drift from
the code.

    writes · coordinated                requests that change the keeper, and requests to a group
    consumer_fetch · follower_fetch     the two kinds of Fetch, over `partition_reads`
    proven · apart                      answers that wait for a proof of leadership, or for a worker
    named · leaders · internal_topics   partitions that requests name, who leads them, who may write
"""
