// Matrices, convolutions, pooling, normalisation, losses, resampling.
#include "call.h"

namespace air_sim {
AIR_SIM_ROWS(
    matrices,
    "Mm(T self, T mat2, T out, c cube): out = mm(self, mat2)",
    "Matmul(T self, T mat2, T out, c cube): out = matmul(self, mat2)",
    "MatmulWeightNz(T self, T mat2, T out, c cube): out = matmul(self, mat2)",
    "Dot(T self, T tensor, T out): out = dot(self, tensor)",
    "Mv(T self, T vec, T out, c cube): out = mv(self, vec)",
    "BatchMatMul(T self, T mat2, T out, c cube): out = bmm(self, mat2)",
    "BatchMatMulWeightNz(T self, T mat2, T out, c cube): out = bmm(self, mat2)",
    "Addmm(T self, T mat1, T mat2, S beta, S alpha, T out, c cube): out = addmm(self, mat1, mat2, beta, alpha)",
    "AddmmWeightNz(T self, T mat1, T mat2, S beta, S alpha, T out, c cube): out = addmm(self, mat1, mat2, beta, alpha)",
    "InplaceAddmm(T self, T mat1, T mat2, S beta, S alpha, c cube): addmm_(self, mat1, mat2, beta, alpha)",
    "Addmv(T self, T mat, T vec, S alpha, S beta, T out, c cube): out = addmv(self, mat, vec, beta, alpha)",
    "Addbmm(T self, T batch1, T batch2, S beta, S alpha, T out, c cube): out = addbmm(self, batch1, batch2, beta, alpha)",
    "Baddbmm(T self, T batch1, T batch2, S beta, S alpha, T out, c cube): out = baddbmm(self, batch1, batch2, beta, alpha)",
    "LinalgCholesky(T self, b upper, T out): out = linalg_cholesky(self, upper)",
    "LinalgCross(T self, T other, i dim, T out): out = linalg_cross(self, other, dim)",
    "Slogdet(T self, T sign, T log): sign, log = slogdet(self)",
    "Svd(T self, b full, b compute_uv, T sigma, T u, T v): u, sigma, vh = linalg_svd(self, full); v = mT(vh)",
    "ConvTbc(T self, T weight, T bias, i pad, T out, c cube): out = conv_tbc(self, weight, bias, pad)",
    "ConvTbcBackward(T self, T input, T weight, T bias, i pad, c cube, T grad_input, T grad_weight, T grad_bias): "
    "grad_input, grad_weight, grad_bias = conv_tbc_backward(self, input, weight, bias, pad)",
    "Convolution(T input, T weight, T? bias, I stride, I padding, I dilation, b transposed, I output_padding, i groups, T out, c cube): "
    "out = convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)",
    "ConvolutionBackward(T grad, T input, T weight, I? bias_sizes, I stride, I padding, I dilation, b transposed, "
    "I output_padding, i groups, B mask, c cube, T grad_input, T grad_weight, T grad_bias): "
    "grad_input, grad_weight, grad_bias = convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, "
    "transposed, output_padding, groups, mask)",
    "AffineGrid(T theta, I size, b align_corners, T out): out = affine_grid_generator(theta, size, align_corners)",
    "Im2col(T self, I kernel, I dilation, I padding, I stride, T out): out = im2col(self, kernel, dilation, padding, stride)",
    "TransformBiasRescaleQkv(T qkv, T bias, i heads, T q, T k, T v): q, k, v = _transform_bias_rescale_qkv(qkv, bias, heads)");

AIR_SIM_ROWS(
    pooling,
    "AdaptiveAvgPool2d(T self, I size, T out): out = _adaptive_avg_pool2d(self, size)",
    "AdaptiveMaxPool2d(T self, I size, T out, T indices): out, indices = adaptive_max_pool2d(self, size)",
    "AdaptiveMaxPool3d(T self, I size, T out, T indices): out, indices = adaptive_max_pool3d(self, size)",
    "AdaptiveMaxPool3dBackward(T grad, T self, T indices, T out): x = _to_copy(indices, 4); out = adaptive_max_pool3d_backward(grad, self, x)",
    "MaxPool2dWithIndices(T self, I kernel, I stride, I padding, I dilation, b ceil, T out, T indices): "
    "out, indices = max_pool2d_with_indices(self, kernel, stride, padding, dilation, ceil)",
    "MaxPool2dWithIndicesBackward(T grad, T self, T indices, I kernel, I stride, I padding, I dilation, b ceil, T out): "
    "x = _to_copy(indices, 4); out = max_pool2d_with_indices_backward(grad, self, kernel, stride, padding, dilation, ceil, x)",
    "MaxPool3dWithArgmax(T self, I kernel, I stride, I padding, I dilation, b ceil, T out, T indices): "
    "out, indices = max_pool3d_with_indices(self, kernel, stride, padding, dilation, ceil)",
    "MaxPool3dWithArgmaxBackward(T grad, T self, T indices, I kernel, I stride, I padding, I dilation, b ceil, T out): "
    "x = _to_copy(indices, 4); out = max_pool3d_with_indices_backward(grad, self, kernel, stride, padding, dilation, ceil, x)");

AIR_SIM_ROWS(
    normalisation,
    "LayerNorm(T self, I shape, T? weight, T? bias, d eps, T out, T mean, T rstd): out, mean, rstd = native_layer_norm(self, shape, weight, bias, eps)",
    "FastLayerNorm(T self, I shape, T? weight, T? bias, d eps, T out, T mean, T rstd): out, mean, rstd = native_layer_norm(self, shape, weight, bias, eps)",
    "Softmax(T self, i dim, T out): out = _softmax(self, dim, False)",
    "SoftmaxBackward(T grad, T output, i dim, T out): out = _softmax_backward_data(grad, output, dim, dtype(grad))",
    "LogSoftmax(T self, i dim, T out): out = _log_softmax(self, dim, False)",
    "LogSoftmaxBackward(T grad, T output, i dim, T out): out = _log_softmax_backward_data(grad, output, dim, dtype(grad))");

AIR_SIM_ROWS(
    losses,
    "MseLoss(T self, T target, i reduction, T out): out = mse_loss(self, target, reduction)",
    "SmoothL1Loss(T self, T target, i reduction, f beta, T out): out = smooth_l1_loss(self, target, reduction, beta)",
    "SmoothL1LossBackward(T grad, T self, T target, i reduction, f beta, T out): out = smooth_l1_loss_backward(grad, self, target, reduction, beta)",
    "NLLLoss(T self, T target, T? weight, i reduction, i ignore, T out, T total): "
    "labels = _to_copy(target, 4); out, total = nll_loss_forward(self, labels, weight, reduction, ignore)",
    "NLLLossBackward(T grad, T self, T target, T? weight, i reduction, i ignore, T total, T! out): "
    "labels = _to_copy(target, 4); out = nll_loss_backward(grad, self, labels, weight, reduction, ignore, total)",
    "NLLLoss2d(T self, T target, T? weight, i reduction, i ignore, T out, T total): "
    "labels = _to_copy(target, 4); out, total = nll_loss2d_forward(self, labels, weight, reduction, ignore)",
    "NLLLoss2dBackward(T grad, T self, T target, T? weight, i reduction, i ignore, T total, T! out): "
    "labels = _to_copy(target, 4); out = nll_loss2d_backward(grad, self, labels, weight, reduction, ignore, total)",
    "MultilabelMarginLoss(T self, T target, i reduction, T out, T is_target): out, is_target = multilabel_margin_loss_forward(self, target, reduction)",
    "Pdist(T self, f p, T out): out = _pdist_forward(self, p)",
    "Cdist(T x1, T x2, f p, i mode, T out): out = cdist(x1, x2, p)",
    "CdistBackward(T grad, T x1, T x2, T cdist, f p, T out): out = _cdist_backward(grad, x1, x2, p, cdist)",
    "FakeQuantPerChannelAffineCachemask(T self, T scale, T zero_point, i axis, i quant_min, i quant_max, T out, T mask): "
    "out, mask = fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, axis, quant_min, quant_max)");

AIR_SIM_ROWS(
    resampling,
    "UpsampleNearest1d(T self, I size, T out): out = upsample_nearest1d(self, size)",
    "UpsampleNearest2d(T self, I size, T out): out = upsample_nearest2d(self, size)",
    "UpsampleBicubic2d(T self, I size, b align, d sh, d sw, T out): out = upsample_bicubic2d(self, size, align, positive(sh), positive(sw))",
    "UpsampleBicubic2dBackward(T grad, I size, I input, b align, d sh, d sw, T out): "
    "out = upsample_bicubic2d_backward(grad, size, input, align, positive(sh), positive(sw))",
    "UpsampleBilinear2d(T self, I size, b align, d sh, d sw, T out): out = upsample_bilinear2d(self, size, align, positive(sh), positive(sw))",
    "UpsampleBilinear2dBackward(T grad, I size, I input, b align, d sh, d sw, T out): "
    "out = upsample_bilinear2d_backward(grad, size, input, align, positive(sh), positive(sw))",
    "UpsampleBilinear2dBackwardV2(T grad, I size, I input, b align, d sh, d sw, T out): "
    "out = upsample_bilinear2d_backward(grad, size, input, align, positive(sh), positive(sw))",
    "UpsampleLinear1d(T self, I size, b align, d s, T out): out = upsample_linear1d(self, size, align, positive(s))",
    "UpsampleLinear1dBackward(T grad, I size, I input, b align, d s, T out): "
    "out = upsample_linear1d_backward(grad, size, input, align, positive(s))",
    "UpsampleTrilinear3d(T self, I size, b align, d sd, d sh, d sw, T out): "
    "out = upsample_trilinear3d(self, size, align, positive(sd), positive(sh), positive(sw))",
    "UpsampleTrilinear3dBackward(T grad, I size, I input, b align, d sd, d sh, d sw, T out): "
    "out = upsample_trilinear3d_backward(grad, size, input, align, positive(sd), positive(sh), positive(sw))",
    "UpsampleNearest1dBackward(T grad, I size, I input, d s, T out): out = upsample_nearest1d_backward(grad, size, input, positive(s))",
    "UpsampleNearest2dBackward(T grad, I size, I input, d sh, d sw, T out): "
    "out = upsample_nearest2d_backward(grad, size, input, positive(sh), positive(sw))",
    "UpsampleNearest3d(T self, I size, d sd, d sh, d sw, T out): out = upsample_nearest3d(self, size, positive(sd), positive(sh), positive(sw))",
    "UpsampleNearest3dBackward(T grad, I size, I input, d sd, d sh, d sw, T out): "
    "out = upsample_nearest3d_backward(grad, size, input, positive(sd), positive(sh), positive(sw))",
    "UpsampleNearestExact1d(T self, I size, d s, T out): out = _upsample_nearest_exact1d(self, size, positive(s))",
    "UpsampleNearestExact1dBackward(T grad, I size, I input, d s, T out): "
    "out = _upsample_nearest_exact1d_backward(grad, size, input, positive(s))",
    "UpsampleNearestExact2d(T self, I size, d sh, d sw, T out): out = _upsample_nearest_exact2d(self, size, positive(sh), positive(sw))",
    "UpsampleNearestExact2dBackward(T grad, I size, I input, d sh, d sw, T out): "
    "out = _upsample_nearest_exact2d_backward(grad, size, input, positive(sh), positive(sw))",
    "UpsampleNearestExact3d(T self, I size, d sd, d sh, d sw, T out): "
    "out = _upsample_nearest_exact3d(self, size, positive(sd), positive(sh), positive(sw))",
    "UpsampleNearestExact3dBackward(T grad, I size, I input, d sd, d sh, d sw, T out): "
    "out = _upsample_nearest_exact3d_backward(grad, size, input, positive(sd), positive(sh), positive(sw))",
    "UpsampleBicubic2dAA(T self, I size, b align, d sh, d sw, T out): "
    "out = _upsample_bicubic2d_aa(self, size, align, positive(sh), positive(sw))",
    "UpsampleBicubic2dAAGrad(T grad, I size, I input, b align, d sh, d sw, T out): "
    "out = _upsample_bicubic2d_aa_backward(grad, size, input, align, positive(sh), positive(sw))",
    "UpsampleBilinear2dAA(T self, I size, b align, d sh, d sw, T out): "
    "out = _upsample_bilinear2d_aa(self, size, align, positive(sh), positive(sw))",
    "UpsampleBilinear2dAABackward(T grad, I size, I input, b align, d sh, d sw, T out): "
    "out = _upsample_bilinear2d_aa_backward(grad, size, input, align, positive(sh), positive(sw))");
}  // namespace air_sim
