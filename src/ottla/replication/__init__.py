"""A partition and its replicas, as one broker sees them.

`partition` holds the log, the leader epoch and the high watermark; `leader` decides, where there are
followers, how far that may go and who is in sync; `follower` fetches from a leader and cuts where logs part;
`fetch_requests` and `sessions` are the two ends of a fetch session, so that a fetcher need not repeat what it
wants (KIP-227); `throttle` measures traffic. What follows from an input leaves as effects.

The invariant: what was acknowledged with acks=all is in the log of every member of the maximal ISR, and only
members of the ISR are elected.
"""
