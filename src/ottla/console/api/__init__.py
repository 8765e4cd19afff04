"""The console for scripts: `/api/v1`, in JSON.

    shapes       what is taken and given, as dataclasses: read with checks, and written as JSON Schema
    endpoints    `Endpoint`: one row for each thing that can be asked for, with what it takes and gives
    topics · configs · records · groups · brokers      the functions of the rows
    routes       all rows
    openapi      the OpenAPI document, made from the rows
    callers      who asks: a token or a user of the cluster, kept for a moment
    service      the application around the functions: who asks, bodies, worker threads, errors

Rules: a function takes a `Visit` and what was declared, and calls what pages call (`actions/`, `records/`,
`cluster/`); it has no logic of its own. Nothing is answered that is not declared. What is wrong with
a request is a 4xx that names the field.
"""
