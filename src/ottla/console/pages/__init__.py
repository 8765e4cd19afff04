"""One file per page. A function takes a `Visit` and answers with `visit.page(template, ...)`; may block."""
