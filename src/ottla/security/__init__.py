"""Who somebody is, and what they may do.

    principals · principal_rules     who somebody is; how that follows from a certificate
    distinguished_names              the name in a certificate, as Java writes it
    sasl/ · credentials              SASL of both sides; SCRAM keys as they are stored
    jaas · jaas_file                 logins as Kafka and ZooKeeper write them
    tokens · key_sets                OAUTHBEARER: whether a token is good, and the keys that say so
    peer_handshake · peer_login      how brokers of one cluster prove that they are
    pkcs12                           keys and certificates out of Java's kind of file
    resources · acls · authorizer    what can be protected, what ACLs say of it, what follows for a request
    quotas                           which limit holds for whom, and how use is measured
    *_config                         the keys: of TLS, SASL, OAUTHBEARER, the authorizer

Rules: secrets and what was computed from them are compared in constant time, and are in no log line and no
`repr`. Random bytes come in as arguments. Nothing here is loaded by a broker without security but the keys,
`principals` and `resources`.
"""
