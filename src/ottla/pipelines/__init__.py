"""Data pipelines on Spark: folders made out of templates, run again and again, and looked at.

    folder              the folder of a pipeline, and how a template becomes one
    client_file         client properties of a run, secrets among them, for as long as it lasts
    run                 a run: its properties and topics, the note of it, another one after a failure
    pauses              how long to wait after a failure
    driver_process      the driver seen from outside, and all that it starts
    driver              the driver itself, a process of its own in which Spark runs
    definitions         the files of a pipeline, as the driver loads them
    mistakes            what is wrong in them: Spark's reason, file and line
    sql_statements      where in a file of SQL a statement begins, and what it makes
    batches             what flows tell after each of their batches
    progress            what the driver has told so far
    run_logs            what Spark has written in the last runs
    spark_environment   Java and PySpark, found or missing
    status · report     what a pipeline has made so far, from its files; what is new after a run
    dataflow · picture  what flows where, and a picture of it
    trial · trial_cases the pipeline on small data; files of what goes in, and what is to come out
    pytest_plugin       the same as a fixture
    archive             the sink of Parquet files in folders by the value of a column
    demo                shops that send orders, for `ottla demo`
    templates/          the pipelines themselves: copied, never imported

Rules: nothing is printed, a person is told through `say` and `show`; the command line (`cli/pipelines`) only
starts it. Not obvious: PySpark imports `archive` in every worker, so this file imports nothing.
"""
