"""A member in a process of its own, to be stopped with SIGSTOP. Arguments: CLIENT BOOTSTRAP GROUP TOPIC.

It joins, holds its own polling thread with a commit queued behind that, and prints `assigned`. A line on
stdin lets go: it commits before it can poll, and so before it can join again, and prints how that went.
"""

import sys
import threading

from tests.kafka_clients.groups_members import CLIENTS, CommitRefused, Wish
from tests.kafka_clients.harness import wait_for

SESSION_MS = 1000


def main(client: str, bootstrap: str, group: str, topic: str) -> None:
    member = CLIENTS[client](Wish(bootstrap, group, (topic,), session_ms=SESSION_MS))
    (where,) = wait_for(lambda: member.assigned, what="an assignment")
    is_held = threading.Event()

    def hold(_consumer: object) -> None:
        is_held.set()
        sys.stdin.readline()

    def commit() -> None:
        try:
            member.commit({where: 1})
            print("committed", flush=True)
        except CommitRefused as error:
            print(f"refused {error.code}", flush=True)

    threading.Thread(target=member.do, args=(hold,), daemon=True).start()
    wait_for(is_held.is_set, 20, "the member's thread to be held")
    committer = threading.Thread(target=commit)
    committer.start()
    wait_for(member.has_orders, 20, "the commit to be queued")
    print("assigned", flush=True)
    committer.join()
    sys.stdin.readline()
    member.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
