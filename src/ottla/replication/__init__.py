"""A partition as its leader serves it, and the sessions through which others fetch from it.

`partition` holds the log, the leader epoch and the high watermark, and is the only writer of the last;
`sessions` remembers what a fetcher wants, so that it need not repeat it (KIP-227).
"""
