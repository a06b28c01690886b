"""Prototypes: losses."""

from __future__ import annotations

ROWS = r"""
LpLoss(predict, label) -> y {p: int; reduction: str = "mean"}
MseLoss(predict, label) -> y {reduction: str = "mean"}
MultilabelMarginLoss(x, target) -> (y, is_target) {reduction: str = "mean"}
NLLLoss(x, target, weight?) -> (y, total_weight) {reduction: str = "mean"; ignore_index: int = -100}
PoissonNllLoss(input_x, target) -> loss {log_input: bool = True; full: bool = False; eps: float = 1e-08;
    reduction: str = "mean"}
SigmoidFocalLoss(pred, target, weight?) -> y {gamma: float = 2.0; alpha: float = 0.25; reduction: str =
    "mean"}
SmoothL1Loss(predict, label) -> loss {sigma: float = 1.0}
SmoothL1LossV2(predict, label) -> loss {sigma: float = 1.0; reduction: str = "mean"}
SoftMarginLoss(input_x, input_y) -> output_z {reduction: str = "mean"}
"""
