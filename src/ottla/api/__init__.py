"""What the broker answers: one file per API, one line per API in the table (`table`).

A handler takes the call and the decoded request, and returns the response, `Parked` if the answer has to
wait, or None where the protocol wants no answer. `dispatch` does the rest: header, version, decoding,
encoding. ApiVersions and the reference documentation are derived from the table, so they cannot drift from
the code.

    writes · coordinated             requests that change the keeper, and requests to a group
    consumer_fetch · follower_fetch  the two kinds of Fetch, over `partition_reads`
    leadership_proof · worker_jobs   answers that wait for a proof of leadership, or for a worker
    named_partitions · leaders       partitions that requests name, and who leads them
    internal_topics                  who may write to them
    needs · refusals · gate          what each API needs, the answer to who may not, the gate before SASL
"""
