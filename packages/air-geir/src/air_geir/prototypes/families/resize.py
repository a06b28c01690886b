"""Prototypes: resampling of images and grids."""

from __future__ import annotations

ROWS = r"""
AffineGrid(theta, output_size) -> y {align_corners: bool = False}
Crop(x, size) -> y {axis: int = 2; offsets: ints}
CropAndResize(x, boxes, box_index, crop_size) -> y {extrapolation_value: float = 0.0; method: str =
    "bilinear"}
CropAndResizeD(x, boxes, box_index) -> y {crop_size: ints; extrapolation_value: float = 0.0; method: str =
    "bilinear"}
CropAndResizeV2(x, boxes, box_index, crop_size) -> y {extrapolation_value: float = 0.0; method: str =
    "bilinear"; dtype: dtype = FLOAT}
DecodeAndCropJpeg(contents, crop_window) -> image {channels: int = 0; ratio: int = 1; fancy_upscaling:
    bool = True; try_recover_truncated: bool = False; acceptable_fraction: float = 1.0; dct_method: str =
    ""; dst_img_format: str = "HWC"}
GridSampler2D(x, grid) -> y {interpolation_mode: str = "bilinear"; padding_mode: str = "zeros";
    align_corners: bool = False}
GridSampler3D(x, grid) -> y {interpolation_mode: str = "bilinear"; padding_mode: str = "zeros";
    data_format: str = "NCDHW"; align_corners: bool = False}
ImageUnfold(x, position) -> y {padding_mode: str = "zeros"}
ImgCrop(x, boxes, box_index) -> y {data_format: str = "CHW"}
IMGWarp(img, warp_offset) -> warp_img
IMGWarpOffsets(images, offsets) -> warp_images
IMGWarpResize(img, warp_index) -> warp_img
KeepRatioResizeBilinear(images) -> y {min_dimension: int; max_dimension: int; align_corners: bool = False;
    half_pixel_centers: bool = False}
Remap(img, map_offset) -> map_img
Resize(x, roi?, scales?, sizes?) -> y {coordinate_transformation_mode: str = "half_pixel"; cubic_coeff_a:
    float = -0.75; exclude_outside: int = 0; extrapolation_value: float = 0.0; mode: str = "nearest";
    nearest_mode: str = "round_prefer_floor"}
ResizeAndClipPolys(polys_data, polys_offset, polys_size, h_scale, w_scale, img_h, img_w) ->
    (clipped_polys_data, clipped_polys_offset, clipped_polys_size, clipped_polys_num)
ResizeArea(images, size) -> y {align_corners: bool = False}
ResizeBicubic(images, size) -> y {align_corners: bool = False; half_pixel_centers: bool = False; dtype:
    dtype = FLOAT}
ResizeBilinearV2(x, size) -> y {align_corners: bool = False; half_pixel_centers: bool = False; dtype:
    dtype = FLOAT}
ResizeBilinearV2D(x) -> y {align_corners: bool = False; half_pixel_centers: bool = False; size: ints}
ResizeD(x) -> y {sizes: ints; scales: floats = []; roi: ints = []; coordinate_transformation_mode: str =
    "half_pixel"; cubic_coeff_a: float = -0.75; exclude_outside: int = 0; extrapolation_value: float =
    0.0; mode: str = "nearest"; nearest_mode: str = "round_prefer_floor"}
ResizeNearestNeighborV2(x, size) -> y {align_corners: bool = False; half_pixel_centers: bool = False}
ResizeNearestNeighborV2D(x) -> y {size: ints; align_corners: bool = False; half_pixel_centers: bool =
    False}
ResizeTrilinear(x, size) -> y {align_corners: bool = False; half_pixel_centers: bool = False}
ResizeV2(x, dst_size) -> y {interpolation: str = "nearest"; data_format: str = "HWC"}
SyncResizeBilinearV2(x, size) -> y {ori_image_size: ints = []; split_size: ints = []; src_start_w: int =
    0; dst_start_w: int = 0; align_corners: bool = False; half_pixel_centers: bool = False}
TargetCropAndResize(x, boxes, box_index) -> y {output_h: int = 224; output_w: int = 224; input_format: str
    = "YUV420SP_U8"}
TensorListResize(input_handle, size) -> output_handle
Upsample(x) -> y {scale: float = 1.0; stride_h: int = 2; stride_w: int = 2}
UpsampleNearest1d(x) -> y {output_size: ints; scales: floats = []}
UpsampleNearest3d(x) -> y {output_size: ints = []; scales: floats = []}
UpsampleTrilinear3d(x) -> y {output_size: ints = []; scales: floats = []; align_corners: bool = False}
WarpAffine(x, matrix) -> y {out_height: int; out_width: int; interpolation_mode: str = "bilinear";
    padding_mode: str = "const"; padding_value: int = 0}
WarpAffineV2(x, matrix, dst_size) -> y {interpolation: str = "bilinear"; border_type: str = "constant";
    border_value: float = 0.0; data_format: str = "HWC"}
"""
