"""Prototypes: convolutions and patches."""

from __future__ import annotations

ROWS = r"""
Col2im(x, output_size) -> y {kernel_size: ints; dilation: ints; padding: ints; stride: ints}
Conv2D(x, filter, bias?, offset_w?) -> y {strides: ints; pads: ints; dilations: ints = [1, 1, 1, 1];
    groups: int = 1; data_format: str = "NHWC"; offset_x: int = 0}
Conv2DCompress(x, filter_compress, compress_index, bias?, offset_w?) -> y {strides: ints; pads: ints;
    dilations: ints = [1, 1, 1, 1]; groups: int = 1; data_format: str = "NHWC"; offset_x: int = 0; alg:
    str = "weight_unzip"}
Conv2DTranspose(input_size, x, filter, bias?, offset_w?) -> y {strides: ints; pads: ints; dilations: ints
    = [1, 1, 1, 1]; groups: int = 1; data_format: str = "NHWC"; output_padding: ints = [0, 0, 0, 0];
    offset_x: int = 0}
Conv2DTransposeD(x, filter, bias?, offset_w?) -> y {input_size: ints; strides: ints; pads: ints;
    dilations: ints = [1, 1, 1, 1]; groups: int = 1; data_format: str = "NHWC"; output_padding: ints = [0,
    0, 0, 0]; offset_x: int = 0}
Conv2DTransposeDCompress(x, filter_compress, compress_index, bias?, offset_w?) -> y {input_size: ints;
    strides: ints; pads: ints; dilations: ints = [1, 1, 1, 1]; groups: int = 1; data_format: str = "NHWC";
    output_padding: ints = [0, 0, 0, 0]; offset_x: int = 0; alg: str = "weight_sparse_4_2"}
Conv3D(x, filter, bias?, offset_w?) -> y {strides: ints; pads: ints; dilations: ints = [1, 1, 1, 1, 1];
    groups: int = 1; data_format: str = "NDHWC"; offset_x: int = 0}
Conv3DTranspose(input_size, x, filter, bias?, offset_w?) -> y {strides: ints; pads: ints; dilations: ints
    = [1, 1, 1, 1, 1]; groups: int = 1; data_format: str = "NDHWC"; output_padding: ints = [0, 0, 0, 0,
    0]; offset_x: int = 0}
Conv3DTransposeD(x, filter, bias?, offset_w?) -> y {input_size: ints; strides: ints; pads: ints;
    dilations: ints = [1, 1, 1, 1, 1]; groups: int = 1; data_format: str = "NDHWC"; output_padding: ints =
    [0, 0, 0, 0, 0]; offset_x: int = 0}
DeformableConv2D(x, filter, offsets, bias?) -> y {strides: ints; pads: ints; dilations: ints = [1, 1, 1,
    1]; groups: int = 1; data_format: str = "NHWC"; deformable_groups: int = 1; modulated: bool = True}
DeformableOffsets(x, offsets) -> y {strides: ints; pads: ints; ksize: ints; dilations: ints = [1, 1, 1,
    1]; data_format: str = "NCHW"; deformable_groups: int = 1; modulated: bool = True}
DepthwiseConv2D(x, filter, bias?, offset_w?) -> y {strides: ints; dilations: ints = [1, 1, 1, 1]; pads:
    ints; data_format: str = "NHWC"; offset_x: int = 0}
DepthwiseWeight4DTo6D(x) -> y
DepthwiseWeight6DTo4D(x) -> y {channel_size: int = 16}
Dilation(x) -> y {dilations: ints; pads: ints = []; padding_value: float = 0.0}
Dilation2D(x, filter) -> y {strides: ints; rates: ints; padding_mode: str = "SAME"; pads: ints =
    [0,0,0,0]; ceil_mode: bool = False; data_format: str = "NHWC"}
Im2col(x) -> y {ksizes: ints; strides: ints = [1]; dilations: ints = [1]; padding_mode: str =
    "CALCULATED"; pads: ints = [0]}
"""
