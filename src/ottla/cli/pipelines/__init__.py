"""`ottla pipeline`: make, run, look at and test data pipelines on Spark. `ottla.pipelines` does the work.

commands            init, run, status
run_display         what a run shows while it lasts, and when it is over
logs                the logs of the last runs
graph               a picture of the flows
trial               the pipeline on small data, in a broker of its own
console_pipelines   pipelines for `ottla console`
"""
