"""The scoreboard: recorded measurements, and the pages that are made of them.

    nox -s scoreboard                      measures everything, keeps the records, writes the pages
    nox -s scoreboard -- --quick           smaller sizes and fewer rounds; not kept; build/scoreboard.html shows it
    python -m house.scoreboard             writes docs/performance.md, its Chinese twin and the page from the records
    python -m house.scoreboard --check     fails where they are out of date, or a loss has no reason

`_runs` says which benchmarks are started, `_boards` what is shown of them, `_records` what is kept.
"""
