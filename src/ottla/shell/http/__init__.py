"""What a broker shows of itself over HTTP: metrics, health and version.

Not loaded unless `ottla.http.listener` asks for it (`ottla start --http`). There is no login, so nothing here
changes anything, whatever is sent: the method, a few paths and two headers are all that is looked at.

    listener      where it listens; how many may be connected, for how long, and how often they are answered
    connection    one of them: bytes in, a request at a time, an answer out
    pages         which path is answered with what
    scrapes       /metrics, read once for all who ask at the same time

It runs on the broker's own loop, so that an answer tells that this loop still turns; so none of it may take
long, and together it gets a small share of the loop's time. It listens before logs are recovered.
"""
