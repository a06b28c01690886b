"""Prototypes: matrix products."""

from __future__ import annotations

ROWS = r"""
BatchMatMul(x1, x2) -> y {adj_x1: bool = False; adj_x2: bool = False}
BatchMatMulV2(x1, x2, bias?, offset_w?) -> y {adj_x1: bool = False; adj_x2: bool = False; offset_x: int =
    0}
Dot(input_x, input_y) -> output
FullyConnection(x, w, b?, offset_w?) -> y {num_output: int; transpose: bool = False; axis: int = 1;
    offset_x: int = 0}
FullyConnectionCompress(x, w, comress_index, b?, offset_w?) -> y {num_output: int; transpose: bool =
    False; axis: int = 1; offset_x: int = 0}
FusedMatMul(x1, x2, bias?, x3?) -> y {transpose_x1: bool = False; transpose_x2: bool = False; enable_hf32:
    bool = False; fused_op_type: str = ""}
GEMM(a, b, c, alpha, beta) -> y {transpose_a: bool = False; transpose_b: bool = False}
Ger(x1, x2) -> y
MatMul(x1, x2, bias?) -> y {transpose_x1: bool = False; transpose_x2: bool = False}
MatMulV2(x1, x2, bias?, offset_w?) -> y {transpose_x1: bool = False; transpose_x2: bool = False; offset_x:
    int = 0}
MatMulV2Compress(x1, x2, compress_index, bias?, offset_w?) -> y {transpose_x1: bool = False; transpose_x2:
    bool = False; offset_x: int = 0; alg: str = "weight_unzip"}
TransposeBatchMatMul(x1, x2, bias?, scale?) -> y {perm_x1: ints = []; perm_x2: ints = []; perm_y: ints =
    []; enable_hf32: bool = False; batch_split_factor: int = 1}
"""
