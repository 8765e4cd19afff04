"""What is measured of a broker's core, one file per part of it.

A class here reads counters that lie with whoever counts (`broker/traffic`, `broker/request_counts`, ...) and
says what is so now of the parts it is given. Nothing here is loaded until somebody reads metrics; nothing
here changes anything. `sources` lists them all.
"""
