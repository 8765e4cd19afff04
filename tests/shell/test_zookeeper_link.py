"""The order of requests to ZooKeeper, on which the keeper's promises rest."""

import asyncio
from typing import Any

from ottla.shell.zookeeper_access import NO_ACCESS_CONTROL
from ottla.shell.zookeeper_link import IN_FLIGHT_MAX, Link


class Result:
    """What kazoo gives for a request; answered by hand."""

    exception = None
    value = None

    def rawlink(self, callback: Any) -> None:
        self.callback = callback


def test_what_is_asked_on_an_answer_does_not_overtake_what_waits() -> None:
    """`confirm` reads once more behind the reads that watches asked for. If those wait for their turn, its
    last read must not come before them: else the tree is confirmed that has not been read."""

    async def body() -> list[str]:
        loop = asyncio.get_running_loop()

        def ignore(_: object) -> None:
            pass

        link = Link(loop, "127.0.0.1:1", 6_000, NO_ACCESS_CONTROL, ignore, ignore, ignore)
        called: list[str] = []
        results: list[Result] = []

        def call(name: str) -> Any:
            def carry_out(_client: Any) -> Result:
                called.append(name)
                results.append(Result())
                return results[-1]

            return carry_out

        link.ask(call("check"), lambda _value, _error: link.ask(call("last read"), lambda *_: None))
        for at in range(IN_FLIGHT_MAX + 20):  # watches of a hundred and more states fire
            link.ask(call(f"state {at}"), lambda *_: None)
        results[0].callback(results[0])
        for _ in range(5):
            await asyncio.sleep(0)
        for result in results[1:]:
            result.callback(result)
        for _ in range(5):
            await asyncio.sleep(0)
        return called

    called = asyncio.run(body())
    assert called[-1] == "last read"
