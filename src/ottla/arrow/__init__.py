"""Record batches to Arrow columns and back, without a Python object per record (docs/design/004-arrow.md).

    columns         record batches to columns: `decode`, `decode_parts`
    batches         columns to record batches: `encode`
    partitioner     which partition a key belongs to
    words · record_starts · slices · headers   the steps of decoding
    varints         the pieces of encoding

Needs numpy and pyarrow (the extra `arrow`), and nothing of Spark, which stands on this as other readers of
columns may. Rules: arrays are made of buffers, since `pa.array` loads pandas; nothing in the bytes is
believed before it is compared with what surrounds it.
"""
