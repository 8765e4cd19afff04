"""The console: a web page for people who run or use a Kafka cluster. A process of its own (design note 020).

    app · routes · visit          what is served: the application, the table of pages, a request
    shield · sessions · logins    who gets in: hosts, other sites, cookies, users
    server · settings             a process with a port
    charts · graphs · figures     pictures as SVG, numbers as people read them
    cluster/                      what is known of a cluster, as one user may see it
    pages/                        one file per page: reads `visit.cluster`, renders a template
    actions/                      what changes something, once for pages and for scripts
    records/                      the records of a topic: pages, tail, search, download, sending
    api/                          the same as JSON, with a document that is made of its routes
    templates/ · static/          HTML, one style sheet, small modules of JavaScript

Rules: it talks to the cluster through `ottla.client` alone, and never looks into a broker. A page is a plain
function that may block: it runs in a worker thread, and nothing that it waits for holds up another page. Only
`app`, `shield`, `bodies`, `streams`, `server` and `api/service` are asynchronous.
"""
