// Reductions, scans, sorting and indexing.
#include "call.h"

namespace air_sim {
AIR_SIM_ROWS(
    reductions,
    "ReduceSum(T self, I dim, b keepdim, D type, T out): out = sum.dim_IntList(self, dim, keepdim, type)",
    "ReduceNansum(T self, I dim, b keepdim, D type, T out): out = nansum(self, dim, keepdim, type)",
    "Mean(T self, I dim, b keepdim, D type, T out): out = mean.dim(self, dim, keepdim, type)",
    "Prod(T self, D type, T out): out = prod(self, type)",
    "ProdDim(T self, i dim, b keepdim, D type, T out): out = prod.dim_int(self, dim, keepdim, type)",
    "All(T self, I dim, b keepdim, T out): out = all.dims(self, dim, keepdim)",
    "Any(T self, I dim, b keepdim, T out): out = any.dims(self, dim, keepdim)",
    "Amax(T self, I dim, b keepdim, T out): out = amax(self, dim, keepdim)",
    "Amin(T self, I dim, b keepdim, T out): out = amin(self, dim, keepdim)",
    "Max(T self, T out): out = max(self)",
    "Min(T self, T out): out = min(self)",
    "MaxDim(T self, i dim, b keepdim, T values, T indices): values, indices = max.dim(self, dim, keepdim)",
    "MinDim(T self, i dim, b keepdim, T values, T indices): values, indices = min.dim(self, dim, keepdim)",
    "ArgMax(T self, i dim, b keepdim, T out): out = argmax(self, dim, keepdim)",
    "ArgMin(T self, i dim, b keepdim, T out): out = argmin(self, dim, keepdim)",
    "Std(T self, I dim, i correction, b keepdim, T out): out = std.correction(self, dim, correction, keepdim)",
    "VarCorrection(T self, I dim, i correction, b keepdim, T out): out = var.correction(self, dim, correction, keepdim)",
    "VarMean(T self, I dim, i correction, b keepdim, T var, T mean): var, mean = var_mean.correction(self, dim, correction, keepdim)",
    "StdMeanCorrection(T self, I dim, i correction, b keepdim, T std, T mean): std, mean = std_mean.correction(self, dim, correction, keepdim)",
    "LogSumExp(T self, I dim, b keepdim, T out): out = logsumexp(self, dim, keepdim)",
    "Kthvalue(T self, i k, i dim, b keepdim, T values, T indices): values, indices = kthvalue(self, k, dim, keepdim)",
    "Bincount(T self, T? weights, i minlength, T out): out = bincount(self, weights, minlength)",
    "Histc(T self, i bins, S min, S max, T out): x = _to_copy(self, 6); out = histc(x, bins, min, max)");

AIR_SIM_ROWS(
    scans,
    "Cumsum(T self, i dim, D type, T out): out = cumsum(self, dim, type)",
    "Cumprod(T self, S dim, D type, T out): out = cumprod(self, dim, type)",
    "Cummax(T self, i dim, T values, T indices): values, indices = cummax(self, dim)",
    "Cummin(T self, i dim, T values, T indices): values, indices = cummin(self, dim)",
    "Sort(T self, b stable, i dim, b descending, T values, T indices): values, indices = sort.stable(self, stable, dim, descending)",
    "Topk(T self, i k, i dim, b largest, b sorted, T values, T indices): values, indices = topk(self, k, dim, largest, sorted)",
    "TopkV2(T self, i k, i dim, b largest, b sorted, i method, T values, T indices): values, indices = topk(self, k, dim, largest, sorted)",
    "SearchSorted(T sorted, T self, b out_int32, b right, T? sorter, T out): out = searchsorted.Tensor(sorted, self, out_int32, right, None, sorter)",
    "SearchSorteds(T sorted, S self, b out_int32, b right, T? sorter, T out): out = searchsorted.Scalar(sorted, self, out_int32, right, None, sorter)",
    "Bucketize(T self, T boundaries, b out_int32, b right, T out): out = bucketize.Tensor(self, boundaries, out_int32, right)");

AIR_SIM_ROWS(
    indexing,
    "Cat(L tensors, i dim, T out): out = cat(tensors, dim)",
    "Index(T self, L indices, T out): out = index.Tensor(self, indices)",
    "IndexPutImpl(T self, L indices, T values, b accumulate, b unsafe): index_put_(self, indices, values, accumulate)",
    "IndexSelect(T self, i dim, T index, T out): out = index_select(self, dim, index)",
    "IndexAdd(T self, i dim, T index, T source, S alpha, T out): out = index_add(self, dim, index, source, alpha)",
    "IndexFill(T self, i dim, T index, S value, T out): x = _to_copy(index, 4); out = index_fill.int_Scalar(self, dim, x, value)",
    "InplaceIndexFill(T self, i dim, T index, S value): x = _to_copy(index, 4); index_fill_.int_Scalar(self, dim, x, value)",
    "Gather(T self, i dim, T index, T out): out = gather(self, dim, index)",
    "ScatterAdd(T self, i dim, T index, T source, T out): out = scatter_add(self, dim, index, source)",
    "InplaceMaskedFillScalar(T self, T mask, S value): masked_fill_.Scalar(self, mask, value)",
    "InplaceMaskedScatter(T self, T mask, T source): masked_scatter_(self, mask, source)",
    "InplacePut(T self, T index, T source, b accumulate): x = _to_copy(index, 4); put_(self, x, source, accumulate)",
    "Embedding(T weight, T indices, T out): out = embedding(weight, indices)",
    "EmbeddingBag(T weight, T indices, T offsets, b scale_grad, i mode, b sparse, T? per_sample, b include_last, i padding_idx, "
    "T out, T offset2bag, T bag_size, T max_indices): out, offset2bag, bag_size, max_indices = "
    "_embedding_bag(weight, indices, offsets, scale_grad, mode, sparse, per_sample, include_last, padding_idx)",
    "EmbeddingRenorm(T self, T indices, d max_norm, d norm_type): embedding_renorm_(self, indices, max_norm, norm_type)",
    "EmbeddingDenseBackward(T grad, T indices, i num_weights, i padding_idx, b scale, T out): "
    "out = embedding_dense_backward(grad, indices, num_weights, padding_idx, scale)",
    "ConstantPadNd(T self, I pad, S value, T out): out = constant_pad_nd(self, pad, value)",
    "Flip(T self, I dims, T out): out = flip(self, dims)",
    "SplitWithSize(T self, I sizes, i dim, L! out): out = split_with_sizes_copy(self, sizes, dim)",
    "ChunkCat(L tensors, i dim, i num_chunks, T out): out = _chunk_cat(tensors, dim, num_chunks)",
    "UnfoldGrad(T grad, I sizes, i dim, i size, i step, T out): out = unfold_backward(grad, sizes, dim, size, step)",
    "RepeatInterleaveWithDim(T self, T repeats, i dim, i output_size, T out): out = repeat_interleave.self_Tensor(self, repeats, dim)",
    "RepeatInterleave(T self, T repeats, i output_size, T out): out = repeat_interleave.self_Tensor(self, repeats)",
    "RepeatInterleaveIntWithDim(T self, i repeats, i dim, i output_size, T out): out = repeat_interleave.self_int(self, repeats, dim)",
    "RepeatInterleaveInt(T self, i repeats, i output_size, T out): out = repeat_interleave.self_int(self, repeats)",
    "RepeatInterleaveTensor(T repeats, i output_size, T out): out = repeat_interleave.Tensor(repeats)");
}  // namespace air_sim
