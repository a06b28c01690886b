"""Prototypes: linear algebra, transforms and diagonals."""

from __future__ import annotations

ROWS = r"""
AdaptiveAvgPool2dAssistMatrix(input_size) -> (left_matrix, right_matrix, weight_matrix) {output_size:
    ints}
AdaptiveAvgPoolAssistMatrix(input_size, output_size) -> (left_matrix, right_matrix, weight_matrix)
AvgPool1DAvgMatrix(x) -> y {ksize: int; strides: int; pads: ints; ceil_mode: bool = False;
    count_include_pad: bool = False}
BandedTriangularSolve(bands, rhs) -> output {lower: bool = True; adjoint: bool = False}
BinaryCrossEntropy(x, y, weight?) -> output {reduction: str = "mean"}
Cdist(x1, x2) -> y {p: float = 2.0}
Cholesky(x) -> y
ConfusionMatrix(labels, predictions, weights?) -> y {num_classes: int; dtype: str}
Cross(x1, x2) -> y {dim: int = -65530}
Diag(x) -> y
DiagD(x, assist) -> y
DiagPart(x) -> y
DiagPartD(x, assist) -> y
Einsum(x*) -> y {equation: str; N: int}
Eye() -> y {num_rows: int; num_columns: int = 0; batch_shape: ints = []; dtype: int = 0}
FFT(x) -> y
FFT2D(x) -> y
FillDiagonal(x) -> y {fill_value: float; wrap: bool = False}
IFFT(x) -> y
IFFT2D(x) -> y
IRFFT(x, fft_length) -> y
LogMatrixDeterminant(x) -> (sign, y)
Lu(input) -> (lu, p) {output_idx_type: dtype}
LUT3D(img, lut_table) -> lut_img
MatrixBandPart(x, num_lower, num_upper) -> y
MatrixDeterminant(x) -> y
MatrixDiag(x) -> y
MatrixDiagD(x, assist) -> y
MatrixDiagPart(x) -> y
MatrixDiagPartD(x, assist) -> y
MatrixDiagPartV2(input, k, padding_value) -> diagonal
MatrixDiagPartV3(x, k, padding_value) -> y {align: str = "RIGHT_LEFT"}
MatrixDiagV2(diagonal, k, num_rows, num_cols, padding_value) -> output
MatrixDiagV3(x, k, num_rows, num_cols, padding_value) -> y {align: str = "RIGHT_LEFT"}
MatrixInverse(x) -> y {adjoint: bool = False}
MatrixSetDiag(x, diagonal) -> y
MatrixSetDiagD(x, diagonal, assist) -> y
MatrixSetDiagV2(input, diagonal, k) -> output
MatrixSetDiagV3(input, diagonal, k) -> output {align: str = "RIGHT_LEFT"}
MatrixSolve(matrix, rhs) -> y {adjoint: bool = False}
MatrixSolveLs(matrix, rhs, l2) -> y {fast: bool = True}
MatrixSquareRoot(input) -> y
MatrixTriangularSolve(matrix, rhs) -> y {lower: bool = True; adjoint: bool = False}
Pdist(x) -> y {p: float = 2.0}
Qr(x) -> (q, r) {full_matrices: bool = False}
RFFT(input, fft_length) -> y
SelfAdjointEig(x) -> (eigen_value, eigen_vector) {compute_v: bool = True}
SigmoidCrossEntropyWithLogits(predict, target) -> loss
SigmoidCrossEntropyWithLogitsV2(predict, target, weight?, pos_weight?) -> loss {reduction: str = "mean"}
SoftmaxCrossEntropyLoss(scores, labels, weights?) -> (loss, log_prop) {ignore_index: int = 0; reduction:
    str = "mean"}
SoftmaxCrossEntropyWithLogits(features, labels) -> (loss, backprop)
Svd(x) -> (sigma, u, v) {compute_uv: bool = True; full_matrices: bool = False}
Trace(x) -> y
TridiagonalSolve(diagonals, rhs) -> y {partial_pivoting: bool = True}
Tril(x) -> y {diagonal: int = 0}
Triu(x) -> y {diagonal: int = 0}
"""
