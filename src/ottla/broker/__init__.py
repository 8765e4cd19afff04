"""The object everything hangs from: one broker, its state, its inputs and its effects.

Inputs are method calls with `now_ms` (`on_tick`, `on_nodes`, `on_written`, `on_synced`, and requests
through `api/dispatch`); what the broker wants done outside is left in `Broker.effects`, which the shell
carries out after every input. Nothing here waits: an answer that is not ready is `Parked`, under the keys
of what it waits for.
"""
