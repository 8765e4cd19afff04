"""Records of a topic for people: pages of them, a live tail, a search, downloads, and records that are sent.

    connection      a client for one visit, with the rights of who visits; partitions and how far they reach
    batches         record batches to records: what a reader sees of them, and what is damaged
    positions       where a page begins, as a link says it
    page            a page of records, newest first, of one partition or of all
    record_source   what pages and scripts read: a page from some place on, or one record
    tail            records as they come, no more than a person can read
    query           what somebody looks for: bytes that must be there, and what a record must be
    search          a query over all partitions, in threads, with its progress
    rows            records as the page and the API show them
    download        records as a file, in pieces
    send            records into a topic

Rules: everything here blocks and is plain: `pages/records` runs it in a worker thread, and closes a generator
when nobody listens any more. Each visit has a client of its own (a client has one thread). Memory is bounded
by what one answer of a broker may bring and by what a page may hold, never by what a topic holds.
"""
