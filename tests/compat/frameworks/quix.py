"""Quix Streams, as in its tutorial: from topic to topic, with counts in a state store."""

import os

from quixstreams import Application

app = Application(
    broker_address=os.environ["BOOTSTRAP"],
    consumer_group="quix",
    auto_offset_reset="earliest",
    processing_guarantee=os.environ.get("GUARANTEE", "at-least-once"),
    commit_interval=1.0,
    state_dir=os.environ["STATE"],
)
sentences = app.topic("in", value_deserializer="str", key_deserializer="str")
counts = app.topic("out", value_serializer="str", key_serializer="str")


def count(sentence, state):
    total = state.get("total", 0) + 1
    state.set("total", total)
    return f"{sentence.upper()} {total}"


app.dataframe(sentences).apply(count, stateful=True).to_topic(counts)
app.run()
