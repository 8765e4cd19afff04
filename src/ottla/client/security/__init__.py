"""How a client proves who it is and whom it talks to: TLS and SASL, out of Kafka's own client properties.

    names · settings                 the properties by name, Java's and librdkafka's; all of them together
    tls_settings · sasl_settings     what each of the two halves says
    stores                           certificates and keys, out of files or out of the properties, as PEM
    handshakes · tls · sasl          what a connection of ours does before its first request
    tokens                           where OAUTHBEARER gets its tokens from

Rules: `settings` and what it imports is pure; a property is honoured, or is one that changes nothing here, or
is refused with one line. Values that are secret are in no `repr`, no log line and no error.
Not obvious: `ssl` is loaded when a client first wants TLS, never by an import of `settings`.
"""
