"""Faust's first application, and a table, which is kept in a compacted topic."""

import os

import faust

brokers = [f"kafka://{address}" for address in os.environ["BOOTSTRAP"].split(",")]
app = faust.App(
    "hello", broker=brokers, value_serializer="raw", store="memory://",
    topic_partitions=1, datadir=os.environ["STATE"],
)  # fmt: skip
greetings = app.topic("in")
answers = app.topic("out")
seen = app.Table("seen", default=int)


@app.agent(greetings)
async def greet(stream):
    async for greeting in stream:
        seen["all"] += 1
        await answers.send(value=greeting.upper())
