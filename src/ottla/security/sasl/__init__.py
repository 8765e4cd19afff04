"""SASL: how somebody proves who they are, as state machines that take and give tokens.

    exchange   what a mechanism is to the broker, and the steps of one connection
    client     the other side: what a client or a broker that connects sends
    plain, scram, oauthbearer   the mechanisms

Rules: nothing here reads a socket or a clock, random bytes come in as arguments. Whoever fails is told one
sentence, whatever the reason was; the reason is for the broker's log and has no secret in it. Secrets are
compared in constant time. A token is limited in size before it comes here, and takes time in proportion.
"""
