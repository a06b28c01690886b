"""Prototypes: gathering, scattering and selecting."""

from __future__ import annotations

ROWS = r"""
CacheAllIndexToLocal(cache) -> local_idx {dtype: dtype}
CacheRemoteIndexToLocal(cache, ids) -> local_idx
CondTake(data, mask) -> (out_data, out_index, valid_num) {mode: str; val: float; eps: float = 1e-06}
Gather(x, indices) -> y {validate_indices: bool = True; batch_dims: int = 0; is_preprocessed: bool =
    False; negative_index_support: bool = False}
GatherD(x, dim, index) -> y {dim: int = 0}
GatherElements(x, index) -> y {dim: int = 0}
GatherNd(x, indices) -> y {negative_index_support: bool = False}
GatherShapes(x*) -> shape {axes: intss; dtype: int = 3}
GatherV2(x, indices, axis) -> y {batch_dims: int = 0; is_preprocessed: bool = False;
    negative_index_support: bool = False}
GatherV2D(x, indices) -> y {axis: int}
Index(x, indexed_sizes, indexed_strides, indices*) -> y
IndexAdd(var, indices, updates) -> var_out {axis: int = 0}
IndexByTensor(x, indices*) -> y {indices_mask: ints = []}
IndexFillD(x, assist1, assist2) -> y {dim: int}
IndexPut(x1, x2) -> y {indices: ints; accumulate: int = 0}
IndexPutV2(x, value, indexed_sizes, indexed_strides, indices*) -> x {accumulate: bool = False}
IndexToAddr(base_addr, x) -> addrs_table {ori_shape: ints; block_size: ints; ori_storage_mode: str =
    "Matrix"; block_storage_mode: str = "Matrix"; rank_id: int = 0; dtype: dtype = FLOAT}
InplaceAdd(x, indices, v) -> y
InplaceAddD(x, v) -> y {indices: ints}
InplaceIndexAdd(var, indices, updates, alpha?) -> var {axis: int}
InplaceSub(x, indices, v) -> y
InplaceSubD(x, v) -> y {indices: ints}
InplaceUpdate(x, indices, v) -> y
InplaceUpdateD(x, v) -> y {indices: ints}
Mask2Argmax(x, mask) -> argmax {ksize: ints; strides: ints; padding: str; originshape: ints}
MaskedFill(x, mask, value) -> y
MaskedFillRange(x, start, end, value) -> y {axis: int}
MaskedScale(x, mask) -> y {value: float}
MaskedScatter(x, mask, updates) -> y
MaskedSelect(x, mask) -> y
MaskedSelectV2(x, mask) -> y
NthElement(x, n) -> y {reverse: bool = False}
OneHot(x, depth, on_value, off_value) -> y {axis: int = -1}
OneHotD(x, on_value, off_value) -> y {depth: int; axis: int = -1}
ReadSelect(x) -> y {stride_list: ints = [1,1,1,1,1]}
Scatter(var, indices, updates) -> var {reduce: str; axis: int = 0}
ScatterAdd(var, indices, updates) -> var {use_locking: bool = False}
ScatterAddWithAxis(var, indices, updates) -> var {axis: int}
ScatterDiv(var, indices, updates) -> var {use_locking: bool = False}
ScatterElements(data, indices, updates) -> y {axis: int = 0; reduction: str = "none"}
ScatterElementsV2(data, indices, updates) -> y {axis: int = 0; reduction: str = "none"}
ScatterList(var*, indice, updates, mask?) -> var* {reduce: str = "update"; axis: int = -2}
ScatterMax(var, indices, updates) -> var {use_locking: bool = False}
ScatterMaxWithArgmax(x, indices, updates) -> (y, argmax)
ScatterMin(var, indices, updates) -> var {use_locking: bool = False}
ScatterMul(var, indices, updates) -> var {use_locking: bool = False}
ScatterNd(indices, x, shape) -> y
ScatterNdAdd(var, indices, updates) -> var {use_locking: bool = False}
ScatterNdD(indices, x) -> y {shape: ints}
ScatterNdMax(var, indices, updates) -> var {use_locking: bool = False}
ScatterNdMin(var, indices, updates) -> var {use_locking: bool = False}
ScatterNdSub(var, indices, updates) -> var {use_locking: bool = False}
ScatterNdUpdate(var, indices, updates) -> var {use_locking: bool = False}
ScatterNonAliasingAdd(x, indices, updates) -> y
ScatterSub(var, indices, updates) -> var {use_locking: bool = False}
ScatterUpdate(var, indices, updates) -> var {use_locking: bool = False}
Select(condition, x1, x2) -> y
SelectV2(condition, then, else) -> result
Slice(x, offsets, size) -> y
SliceD(x) -> y {offsets: ints; size: ints}
SliceDV2(x, offsets) -> y {size: ints}
SliceLastDim(x) -> y {start: int; end: int; stride: int = 1}
SliceWrite(x, begin, value) -> x
StridedSlice(x, begin, end, strides) -> y {begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0;
    new_axis_mask: int = 0; shrink_axis_mask: int = 0}
StridedSliceAssign(var, begin, end, strides, input_value) -> var {begin_mask: int = 0; end_mask: int = 0;
    ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0}
StridedSliceAssignD(var, input_value) -> var {begin: ints; end: ints; strides: ints; begin_mask: int = 0;
    end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0}
StridedSliceD(x) -> y {begin: ints; end: ints; strides: ints; begin_mask: int = 0; end_mask: int = 0;
    ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0}
StridedSliceV2(x, begin, end, axes?, strides?) -> y {begin_mask: int = 0; end_mask: int = 0;
    ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0}
StridedSliceV3(x, begin, end, axes?, strides?) -> y
SwitchByIndex(x) -> () {indices: int}
TensorScatterAdd(x, indices, updates) -> y
TensorScatterMax(input, indices, updates) -> output
TensorScatterMin(input, indices, updates) -> output
TensorScatterSub(x, indices, updates) -> y
TensorScatterUpdate(x, indices, updates) -> y
UnravelIndex(indices, dims) -> y
WriteSelect(x) -> y
"""
