"""Counts words: a bolt in Python, which Storm starts and talks to over its multi-lang protocol."""

from collections import Counter

import storm


class CountBolt(storm.BasicBolt):
    """BasicBolt anchors what is emitted to the word it came from, and acks that: at least once."""

    def initialize(self, conf, context):
        self.counts = Counter()

    def process(self, tup):
        word = tup.values[0]
        self.counts[word] += 1
        storm.emit([word, str(self.counts[word])])


CountBolt().run()
