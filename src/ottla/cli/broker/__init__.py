"""`ottla start`: a broker in the foreground. `process` does the work; `start` is what typer sees."""
