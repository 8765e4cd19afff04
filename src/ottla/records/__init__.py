"""Kafka's record batch, format version 2: the unit that travels, is stored, and is never opened lightly.

`batch` reads and patches the 61-byte header, `record` walks what is inside, `compression` opens and closes
the body, `builder` makes new batches and `many` those of many plain records, `control` the markers that end a
transaction, `visible` says what a reader sees of what it has fetched, `checksum` is CRC-32C.

Rules: nothing here owns a file, a clock or a socket. Every length found in bytes is checked against the bytes
that remain before anything is allocated, and no input makes `decompress` hold much more than the limit it is
given. Not obvious: base offset, length, leader epoch and magic lie outside the checksum; a broker changes
offset and epoch in place.
"""
