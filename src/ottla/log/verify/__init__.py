"""Checks of data directories that no broker uses; nothing is changed.

`directory` has the way in, and looks at `partition` after partition, which looks at `segment` after segment;
`findings` is what they say. Each says what a broker would do about it, which follows `recovery` and
`store_loader`, and changes with them.
"""
