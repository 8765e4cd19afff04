"""What the shell shows of a broker: its metrics and those of its process, as text for Prometheus and others.

`sources` lists what is read, `reader` reads it without keeping anybody waiting, `text` writes it down.
"""
