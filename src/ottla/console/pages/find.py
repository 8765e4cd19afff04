"""The search of the header: topics, groups and brokers whose name contains the words."""

from starlette.responses import Response

from ottla.console.figures import part
from ottla.console.visit import Visit

SHOWN_MAX = 100


def show(visit: Visit) -> Response:
    words = visit.query("q").strip()
    snapshot, measured = visit.cluster.snapshot(), visit.cluster.measured()
    hits = [
        *(("topic", name, f"/topics/{part(name)}") for name in snapshot.topics),
        *(
            ("group", group.id, f"/groups/{part(group.id)}")
            for group in (measured.listed if measured else [])
        ),
        *(
            ("broker", f"{broker.id} {broker.address}", f"/brokers/{broker.id}")
            for broker in snapshot.brokers.values()
        ),
    ]
    matching = [hit for hit in hits if all(word in hit[1].lower() for word in words.lower().split())]
    exact = [hit for hit in matching if hit[1] == words]
    if words and (len(matching) == 1 or len(exact) == 1):
        return visit.to((exact or matching)[0][2])
    return visit.page("find.html", words=words, hits=matching[:SHOWN_MAX], count=len(matching))
