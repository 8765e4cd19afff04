"""Who somebody is: SASL of both sides (`sasl/`), users' credentials as they are stored (`credentials`), JAAS
lines (`jaas`), and how brokers of one cluster prove to each other that they are (`peer_handshake`).

Rules: secrets and what was computed from them are compared in constant time, and are in no log line and no
`repr`. Random bytes come in as arguments.
"""
