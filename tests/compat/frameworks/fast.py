"""FastStream's first application: https://faststream.ag2.ai, "Getting started"."""

import os

from faststream import FastStream
from faststream.kafka import KafkaBroker

broker = KafkaBroker(os.environ["BOOTSTRAP"].split(","))
app = FastStream(broker)


@broker.subscriber("in", group_id="fast", auto_offset_reset="earliest")
@broker.publisher("out")
async def handle(message: str) -> str:
    return message.upper()
