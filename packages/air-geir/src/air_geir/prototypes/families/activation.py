"""Prototypes: activation functions."""

from __future__ import annotations

ROWS = r"""
Celu(x) -> y {alpha1: float = 1.0; alpha2: float = 1.0; alpha3: float = 1.0}
CeluV2(x) -> y {alpha: float = 1.0}
ClippedSwiglu(x, group_index?) -> y {dim: int = -1; alpha: float = 1.702; limit: float = 7.0; bias: float
    = 1.0; interleaved: bool = True}
Elu(x) -> y {alpha: float = 1.0; scale: float = 1.0; input_scale: float = 1.0}
FastGelu(x) -> y
FastGeluV2(x) -> y
FusedBiasLeakyRelu(x, bias) -> y {negative_slope: float = 0.2; scale: float = 1.414213562373}
GeGluV2(x) -> (y, gelu) {dim: int = -1; approximate: int = 1; activate_left: bool = False}
Gelu(x) -> y
GeluV2(x) -> y {approximate: str = "none"}
GLU(x) -> y {dim: int = -1}
HardMax(x) -> y {axis: int = -1}
HardShrink(input_x) -> output_y {lambd: float = 0.5}
HardSigmoid(input_x) -> output_y {alpha: float = 0.16666666; beta: float = 0.5}
HardSwish(x) -> y
LeakyRelu(x) -> y {negative_slope: float = 0.0}
LogSigmoid(x) -> y
Mish(x) -> y
PRelu(x, weight) -> y
Relu(x) -> y
Relu6(x) -> y
Relu6D(x) -> y {scale: float = 1.0}
ReluV2(x) -> (y, mask)
Selu(x) -> y
Shrink(input_x) -> output_y {lambd: float = 0.5; bias: float = 0.0}
Sigmoid(x) -> y
Softplus(x) -> y
SoftplusV2(x) -> y {beta: float = 1.0; threshold: float = 20.0}
SoftShrink(input_x) -> output_y {lambd: float = 0.5}
Softsign(x) -> y
SwiGlu(x) -> y {dim: int = -1}
Swish(x) -> y {scale: float = 1.0}
Tanh(x) -> y
Threshold(x) -> y {threshold: float = 0.0}
ThresholdedRelu(x) -> y {alpha: float = 1.0}
ThresholdV2(x, threshold, value?) -> y
ThresholdV2D(x) -> y {threshold: float; value: float}
"""
