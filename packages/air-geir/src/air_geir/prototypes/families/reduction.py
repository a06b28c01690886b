"""Prototypes: reductions, scans, sorting and searching."""

from __future__ import annotations

ROWS = r"""
AccumulateNV2(x*) -> y {N: int}
ArgMaxD(x) -> y {dimension: int; dtype: dtype = INT64}
ArgMaxV2(x, dimension) -> y {dtype: dtype = INT64}
ArgMaxWithK(x) -> (indices, values) {axis: int = 10000; out_max_val: bool = False; topk: int = 1}
ArgMaxWithValue(x) -> (indice, values) {dimension: int; keep_dims: bool = False}
ArgMin(x, dimension) -> y {dtype: dtype = INT64}
ArgMinD(x) -> y {dimension: int; dtype: dtype = INT64}
ArgMinWithValue(x) -> (indice, values) {dimension: int; keep_dims: bool = False}
Bincount(array, size, weights) -> bins
Bucketize(x) -> y {boundaries: floats; dtype: dtype = INT32; right: bool = True}
Cummax(x) -> (y, indices) {dim: int}
Cummin(x) -> (y, indices) {axis: int}
Cumprod(x, axis) -> y {exclusive: bool = False; reverse: bool = False}
CumprodD(x) -> y {axis: int; exclusive: bool = False; reverse: bool = False}
Cumsum(x, axis) -> y {exclusive: bool = False; reverse: bool = False}
CumsumD(x) -> y {axis: int; exclusive: bool = False; reverse: bool = False}
CumulativeLogsumexp(x, axis) -> y {exclusive: bool = False; reverse: bool = False}
CumulativeLogsumexpD(x) -> y {axis: int; exclusive: bool = False; reverse: bool = False}
Histogram(x) -> y {bins: int = 100; min: float = 0.0; max: float = 0.0}
HistogramFixedWidth(x, range, nbins) -> y {dtype: int = 3}
InplaceTopKDistance(topk_pq_distance, topk_pq_index, topk_pq_ivf, pq_distance, pq_index, pq_ivf) -> ()
    {order: str = "asc"}
InTopK(x1, x2, k) -> y
InTopKD(x1, x2) -> y {k: int}
InTopKV2(predictions, targets, k) -> precision
KMeansCentroids(x, y, sum_square_y, sum_square_x?) -> (segment_sum, segment_count, kmean_total_sum)
    {use_actual_distance: bool = False}
MaxN(x*) -> y
NonZero(x) -> y {transpose: bool = False; dtype: dtype = INT64}
NonZeroWithValue(x) -> (value, index, count) {transpose: bool = False; dtype: dtype = INT32}
NonZeroWithValueShape(value, index, count) -> (out_value, out_index)
ReduceAll(x, axes) -> y {keep_dims: bool = False}
ReduceAllD(x) -> y {axes: ints; keep_dims: bool = False}
ReduceAny(x, axes) -> y {keep_dims: bool = False}
ReduceAnyD(x) -> y {axes: ints; keep_dims: bool = False}
ReduceJoin(input, reduction_indices) -> output {keep_dims: bool = True; separator: str = ""}
ReduceLogSum(x, axes) -> y {keep_dims: bool = False}
ReduceLogSumExp(x, axes) -> y {keep_dims: bool = False}
ReduceMax(x, axes) -> y {keep_dims: bool = False}
ReduceMaxD(x) -> y {axes: ints; keep_dims: bool = False}
ReduceMean(x, axes) -> y {keep_dims: bool = False; noop_with_empty_axes: bool = True}
ReduceMeanD(x) -> y {axes: ints; keep_dims: bool = False; noop_with_empty_axes: bool = False}
ReduceMeanVariance(x) -> (mean, variance) {axes: ints = []; keep_dims: bool = True}
ReduceMeanWithCast(x, axes) -> y {keep_dims: bool = False; noop_with_empty_axes: bool = True; dtype: dtype
    = UNDEFINED}
ReduceMeanWithCount(x, count, count_sum) -> y {axes: ints; keep_dims: bool = False}
ReduceMin(x, axes) -> y {keep_dims: bool = False}
ReduceMinD(x) -> y {axes: ints; keep_dims: bool = False}
ReduceProd(x, axes) -> y {keep_dims: bool = False}
ReduceProdD(x) -> y {axes: ints; keep_dims: bool = False}
ReduceStd(x) -> (y1, y2) {dim: ints = []; unbiased: bool = True; keepdim: bool = False}
ReduceStdV2(x) -> (std, mean) {dim: ints = []; correction: int = 1; keepdim: bool = False; is_mean_out:
    bool = True}
ReduceStdV2Update(x, mean) -> output_var {dim: ints; if_std: bool = False; unbiased: bool = True; keepdim:
    bool = False; correction: int = 1}
ReduceStdWithMean(x, mean) -> y {dim: ints = []; unbiased: bool = True; keepdim: bool = False; invert:
    bool = False; epsilon: float = 0.001; correction: int = 1}
ReduceSum(x, axes) -> y {keep_dims: bool = False}
ReduceSumD(x) -> y {axes: ints; keep_dims: bool = False}
Renorm(x) -> y {p: float; dim: int; maxnorm: float}
SearchSorted(sorted_sequence, values, sorter?) -> out {dtype: dtype = INT64; right: bool = False}
SegmentMax(x, segment_ids) -> y
SegmentSum(x, segment_ids) -> y
Sort(x) -> (y1, y2) {axis: int = -1; descending: bool = False; stable: bool = False}
SortV2(x) -> y {axis: int = -1; descending: bool = False}
SquareSumAll(x1, x2) -> (y1, y2)
SquareSumV1(x) -> y {axis: ints; keep_dims: bool = False}
SquareSumV2(x) -> (y1, y2) {axis: ints; keep_dims: bool = False}
TopK(x, k) -> (values, indices) {sorted: bool = True; largest: bool = True; dim: int = -1}
TopKD(x, assist_seq) -> (values, indices) {k: int; sorted: bool = True; dim: int = -1; largest: bool =
    True}
TopKPQDistance(actual_count*, pq_distance*, grouped_extreme_distance*, pq_ivf*, pq_index*) ->
    (topk_distance, topk_ivf, topk_index) {order: str = "ASC"; k: int; group_size: int}
TopKPQDistanceMerge(sorted_distance, pq_ivf, pq_index) -> (topk_distance, topk_ivf, topk_index) {k: int}
TopKPQDistanceV2(pq_distance, grouped_extreme_distance) -> (topk_distance, topk_index) {order: str =
    "ASC"; k: int; group_size: int}
TopKV2(x, k) -> (values, indices) {sorted: bool = True; dim: int = -1; largest: bool = True}
TopKV2D(x, k, assist_seq) -> (values, indices) {sorted: bool = True; dim: int = -1; largest: bool = True}
Unique(x) -> (y, idx) {out_idx: dtype = INT32}
UniqueConsecutive(x) -> (y, idx, count) {return_idx: bool = False; return_counts: bool = False; axis: int
    = 1000}
UniqueExt2(x, axis) -> (y, idx) {out_idx: dtype = INT32}
UniqueWithCounts(x) -> (y, idx, count) {out_idx: dtype}
UniqueWithCountsAndSorting(x) -> (y, indices, counts) {return_inverse: bool = False; return_counts: bool =
    False; sorted: bool = True}
UniqueWithCountsExt2(x, axis) -> (y, idx, count) {out_idx: dtype}
UnsortedSegmentMax(x, segment_ids, num_segments) -> y
UnsortedSegmentMin(x, segment_ids, num_segments) -> y
UnsortedSegmentProd(x, segment_ids, num_segments) -> y
UnsortedSegmentSum(x, segment_ids, num_segments) -> y {is_preprocessed: bool = False}
Where(x) -> y
"""
