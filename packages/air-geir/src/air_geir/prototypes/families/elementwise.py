"""Prototypes: elementwise arithmetic."""

from __future__ import annotations

ROWS = r"""
Abs(x) -> y
Acos(x) -> y
Acosh(x) -> y
Add(x1, x2) -> y
Addcdiv(input_data, x1, x2, value) -> y
Addcmul(input_data, x1, x2, value) -> y
AddN(x*) -> y {N: int}
Adds(x) -> y {value: float}
AddV2(x1, x2) -> y
Angle(input) -> output {Tout: dtype = FLOAT}
AscendRequant(x, req_scale) -> y {relu_flag: bool = False}
AscendRequantS16(x0, req_scale, x1?) -> (y0, y1) {dual_output: bool = False; relu_flag: bool = False}
Asin(x) -> y
Asinh(x) -> y
Atan(x) -> y
Atan2(x1, x2) -> y
Atanh(x) -> y
Axpy(x1, x2) -> y {alpha: float}
AxpyV2(x1, x2, alpha) -> y
BesselI0e(x) -> y
BesselI1e(x) -> y
Betainc(a, b, x) -> z
Bias(x, bias) -> y {axis: int = 1; num_axes: int = 1; bias_from_blob: bool = True}
BiasAdd(x, bias) -> y {data_format: str = "NHWC"}
Cast(x) -> y {dst_type: int}
Ceil(x) -> y
Centralization(x) -> y {axes: ints = [-1]}
CheckNumerics(x) -> y {message: str}
ClipByValue(x, clip_value_min, clip_value_max) -> y
ClipByValueV2(x, clip_value_min, clip_value_max) -> y
Col2ImV2(x, output_size, kernel_size) -> y {dilation: ints; padding: ints; stride: ints}
Combinations(x) -> y {r: int = 2; with_replacement: bool = False}
Complex(real, imag) -> out {Tout: dtype = COMPLEX64}
ComplexAbs(x) -> y {Tout: dtype = FLOAT}
Conj(input) -> output
Cos(x) -> y
Cosh(x) -> y
CosineSimilarity(input_x1, input_x2) -> output_y {dim: int = 1; eps: float = 1e-08}
Dawsn(x) -> y
Deconvolution(x, filter, bias?, offset_w?) -> y {strides: ints = [1, 1]; pads: ints = [0, 0, 0, 0];
    dilations: ints = [1, 1, 1, 1]; groups: int = 1; data_format: str = "NCHW"; offset_x: int = 0}
Div(x1, x2) -> y
DivNoNan(x1, x2) -> y
DSAStatelessGenBitMask(count, seed, dropout, offset) -> out {random_algorithm: str = "Philox";
    output_dtype: str = "uint8"}
DynamicPartition(x, partitions) -> y* {num_partitions: int = 1}
DynamicStitch(indices*, x*) -> y {N: int = 1}
Eltwise(x*) -> y {N: int; mode: int = 1; coeff: floats = []}
Erf(x) -> y
Erfc(x) -> y
Erfinv(input_x) -> output_y
Exp(x) -> y {base: float = -1.0; scale: float = 1.0; shift: float = 0.0}
Expint(x) -> y
Expm1(x) -> y
Exponential(x) -> y {lambda: float = 1.0; seed: int = 0}
ExtractVolumePatches(x) -> y {ksizes: ints; strides: ints; padding: str}
Floor(x) -> y
FloorDiv(x1, x2) -> y
FloorMod(x1, x2) -> y
FresnelCos(x) -> y
FresnelSin(x) -> y
GaussianBlur(x) -> y {kernel_size: ints; sigma: floats; padding_mode: str = "constant"}
Gcd(x1, x2) -> y
Geometric(x) -> y {p: float; seed: int = 0}
Igamma(a, x) -> z
Igammac(a, x) -> z
Imag(input) -> output {Tout: dtype = FLOAT}
Inv(x) -> y
InvertPermutation(x) -> y
KLDiv(x, target) -> y {reduction: str}
Lerp(start, end, weight) -> y
Log(x) -> y {base: float = -1.0; scale: float = 1.0; shift: float = 0.0}
Log1p(x) -> y
LowerBound(sorted_x, values) -> y {out_type: dtype = INT32}
Maximum(x1, x2) -> y
MemSet() -> () {sizes: ints; dtypes: dtypes = []; values_int: ints = []; values_float: floats = []}
Minimum(x1, x2) -> y
Mod(x1, x2) -> y
Mul(x1, x2) -> y
MulNoNan(x1, x2) -> y
Muls(x) -> y {value: float}
MVN(x) -> y {normalize_variance: bool = True; across_channels: bool = False; eps: float = 1e-09}
MVNV2(x) -> y {eps: float = 1e-09; axes: ints = [0, 2, 3]}
NanToNum(x) -> y {nan: float; posinf: float; neginf: float}
Ndtri(x) -> y
Neg(x) -> y
NextAfter(x1, x2) -> output
NonDeterministicInts(shape) -> y {dtype: dtype}
NPUAllocFloatStatus() -> data
NPUAllocFloatStatusOperator() -> data
NPUClearFloatStatus(addr) -> data
NPUClearFloatStatusOperator(addr) -> data
NPUClearFloatStatusV2() -> ()
NPUGetFloatStatus(addr) -> data
NPUGetFloatStatusOperator(addr) -> data
NPUGetFloatStatusV2() -> data
Pinverse(x) -> y {rcond: float = 1e-15}
Poisson(x) -> y {seed: int = 0}
Pow(x1, x2) -> y
Power(x) -> y {power: float = 1.0; scale: float = 1.0; shift: float = 0.0}
Real(input) -> output {Tout: dtype = FLOAT}
RealDiv(x1, x2) -> y
Reciprocal(x) -> y
Reduction(x) -> y {operation: int = 1; axis: int = 0; coeff: float = 1.0}
Rint(x) -> y
Round(x) -> y
Rsqrt(x) -> y
Scale(x, scale, bias?) -> y {axis: int = 1; num_axes: int = 1; scale_from_blob: bool = True}
Sign(x) -> y
Sin(x) -> y
Sinh(x) -> y
Slogdet(x) -> (sign, y)
Spence(x) -> y
Sqrt(x) -> y
Square(x) -> y
SquaredDifference(x1, x2) -> y
StatefulUniform(x, algorithm, shape) -> y
StatefulUniformFullInt(x, algorithm, shape) -> y
StatefulUniformInt(x, algorithm, shape, minval, maxval) -> y
STFT(x, window?) -> y {hop_length: int = 0; win_length: int = 0; normalized: bool = False; onesided: bool
    = True; return_complex: bool = True; n_fft: int}
Sub(x1, x2) -> y
Sxpy(x1, x2, alpha?) -> y
Tan(x) -> y
Trunc(input_x) -> output_y
TruncateDiv(x1, x2) -> y
TruncateMod(x1, x2) -> y
Uniform(x) -> y {from: float = 0.0; to: float = 1.0}
Unpack(x) -> y* {num: int; axis: int = 0}
UpperBound(sorted_x, values) -> y {out_type: dtype}
Xdivy(x1, x2) -> y
Xlog1py(x, y) -> z
Xlogy(x1, x2) -> y
Zeta(x, q) -> z
"""
