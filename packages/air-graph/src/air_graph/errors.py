"""The errors of air-graph."""

from __future__ import annotations


class GraphError(Exception):
    """Base of the errors of air-graph.

    Catch it to handle every error of the package.
    """


class BadRegistration(GraphError):
    """A table row contradicts the schema of the operator it names, or names one twice.

    Compare the row with the schema of the operator; `print(torch.ops.ns.op.default._schema)` shows it.
    """

    def __init__(self, table: str, row: str, problem: str) -> None:
        self.table = table
        self.row = row
        self.problem = problem
        super().__init__(table, row, problem)

    def __str__(self) -> str:
        return f"{self.table}: {self.row} refused: {self.problem}"
