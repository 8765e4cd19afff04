"""The bytes of the Kafka protocol, and nothing of what they mean.

    frame       a stream of bytes -> frames
    header      a frame -> which API and version, and where the body begins
    schema      how a message is declared; `messages/` has the declarations, one file per API
    codec       body <-> message: decode, encode, encode_chunks; decoder and encoder for hot paths
    primitives  varints, and ProtocolError

`decoders` and `encoders` write the code behind `codec`, one function per message and version.

Rules. Nothing here waits, logs or keeps state between calls, except a `Splitter` for its connection. What a
peer sends may raise `ProtocolError` and nothing else, and never makes us allocate more than a constant
times what it has sent. What we fail to encode raises `ValueError`: a bug. A frame, and the records in a
message decoded from it, are views of a shared buffer: whoever wants them after the event loop has run must
copy them.
"""
