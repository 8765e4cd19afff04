"""What the broker answers: one file per API key, one line per API in the table (`table.py`).

A handler takes the call and the decoded request, and returns the response, `Parked` if the answer has to
wait, or None where the protocol wants no answer. `dispatch` does the rest: header, version, decoding,
encoding. ApiVersions and the reference documentation are derived from the table, so they cannot drift from
the code.
"""
