// Layers of neural networks: normalisations, convolutions, pooling, losses, dropout.
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "kernels.h"

namespace air_sim::graph_engine {
namespace {
// Height and width of a list over all four axes, in the order the operator's data format has them.
Ints spatial(const Ints& list, const std::string& format) {
  const size_t first = format.find_first_of("DH");
  const size_t count = list.size() - 2;
  return {list.begin() + first, list.begin() + first + count};
}
bool is_channels_last(const std::string& format) { return format.back() == 'C'; }
Tensor channels_first(const Tensor& t) { return t.movedim(-1, 1); }
Tensor channels_last(const Tensor& t) { return t.movedim(1, -1).contiguous(); }

Tensor convolution(const Call& c, const Tensor& input, const Tensor& filter, const at::optional<Tensor>& bias, bool transposed) {
  const std::string format = c.text("data_format", input.dim() == 4 ? "NCHW" : "NCDHW");
  const Ints pads = c.ints("pads");  // begin and end of every spatial axis
  const size_t axes = pads.size() / 2;
  Tensor x = is_channels_last(format) ? channels_first(input) : input;
  Ints symmetric, padding;
  bool even = true;
  for (size_t axis = 0; axis < axes; ++axis) {
    symmetric.push_back(pads[2 * axis]);
    even &= pads[2 * axis] == pads[2 * axis + 1];
  }
  if (!even) {
    for (size_t axis = axes; axis-- > 0;) padding.insert(padding.end(), {pads[2 * axis], pads[2 * axis + 1]});
    x = at::constant_pad_nd(x, padding, 0);
    symmetric.assign(axes, 0);
  }
  const Ints strides = spatial(c.ints("strides"), format);
  const Ints dilations = spatial(c.ints("dilations", Ints(axes + 2, 1)), format);
  const Ints extra = c.has("output_padding") ? spatial(c.ints("output_padding"), format) : Ints(axes, 0);
  const Tensor y = at::convolution(x, filter, bias, strides, symmetric, dilations, transposed, extra, c.integer("groups", 1));
  return is_channels_last(format) ? channels_last(y) : y;
}
// The statistics of half precision are in single precision.
Tensors layer_norm(const Call& c) {
  auto [y, mean, rstd] =
      at::native_layer_norm(c.in[0], c.values(1), c.optional(2), c.optional(3), c.real("epsilon", 1e-5));
  const at::ScalarType statistics = at::promote_types(c.in[0].scalar_type(), at::kFloat);
  return {y, mean.to(statistics), rstd.to(statistics)};
}
Tensors group_norm(const Call& c, double epsilon) {
  const Tensor& x = c.in[0];
  const int64_t n = x.size(0), channels = x.size(1), rest = x.numel() / std::max<int64_t>(n * channels, 1);
  auto [y, mean, rstd] = at::native_group_norm(x.contiguous(), c.optional(1), c.optional(2), n, channels, rest,
                                               c.integer("num_groups"), c.real("eps", epsilon));
  return {y, mean.to(x.scalar_type()), rstd.to(x.scalar_type())};
}
Tensors group_norm_with_variance(const Call& c) {
  Tensors found = group_norm(c, 1e-4);
  const int64_t groups = c.integer("num_groups");
  const Tensor wide = c.in[0].to(at::kFloat).unflatten(1, {groups, c.in[0].size(1) / groups}).flatten(2);
  found[2] = wide.var(2, false).to(c.in[0].scalar_type());
  return found;
}
Tensors batch_norm(const Call& c) {
  const bool training = c.integer("is_training", 1) != 0;
  Tensor mean = c.in[3].clone(), variance = c.in[4].clone();
  auto [y, saved_mean, saved_rstd] = at::native_batch_norm(c.in[0], c.optional(1), c.optional(2), mean, variance, training,
                                                           c.real("momentum", 0.1), c.real("epsilon", 1e-5));
  return {y, mean, variance, saved_mean, saved_rstd};
}
Tensor batch_norm_inference(const Call& c) {
  TORCH_CHECK(c.in[0].dim() == 4, "BNInfer takes images");
  for (size_t i = 1; i < 5; ++i) TORCH_CHECK(c.in[i].scalar_type() == at::kFloat, "BNInfer takes settings in float32");
  return at::batch_norm(c.in[0], c.in[1], c.in[2], c.in[3], c.in[4], false, 0.0, c.real("epsilon", 1e-5), false);
}
int64_t axis_of(const Call& c) {
  const Ints axes = c.ints("axes", {-1});
  return axes.empty() ? -1 : axes[0];
}
Tensor softmax(const Call& c) {
  const Tensor x = c.integer("half_to_float") ? c.in[0].to(at::kFloat) : c.in[0];
  return at::softmax(x, axis_of(c));
}
Tensor average_pool(const Call& c) {
  const std::string format = c.text("data_format", "NCHW");
  const Tensor x = is_channels_last(format) ? channels_first(c.in[0]) : c.in[0];
  const Ints pads = c.ints("pads", {0, 0, 0, 0});
  const int64_t divisor = c.integer("divisor_override");
  const Tensor y = at::avg_pool2d(x, spatial(c.ints("ksize"), format), spatial(c.ints("strides"), format), {pads[0], pads[2]},
                                  c.integer("ceil_mode") != 0, c.integer("exclusive", 1) == 0,
                                  divisor ? at::optional<int64_t>(divisor) : at::nullopt);
  return is_channels_last(format) ? channels_last(y) : y;
}
// Its lists are in the order N, H, W, C whatever the layout of the input.
Tensors max_pool_with_argmax(const Call& c) {
  const Ints pads = c.ints("pads");
  auto [y, index] = at::max_pool2d_with_indices(c.in[0], spatial(c.ints("ksize"), "NHWC"), spatial(c.ints("strides"), "NHWC"),
                                                spatial(pads, "NHWC"), spatial(c.ints("dilation", {1, 1, 1, 1}), "NHWC"),
                                                c.integer("ceil_mode") != 0);
  return {y, index.to(c.output_type(1, at::kInt))};
}
// Its lists are in the order of data_format, or of the planes alone.
Tensors max_pool_with_places(const Call& c) {
  const std::string format = c.text("data_format", "NCHW");
  const auto planes = [&](const Ints& list) { return list.size() == 4 ? spatial(list, format) : list; };
  auto [y, index] = at::max_pool2d_with_indices(c.in[0], planes(c.ints("ksize")), planes(c.ints("strides")), planes(c.ints("pads")),
                                                planes(c.ints("dilation", {1, 1})), c.integer("ceil_mode") != 0);
  return {y, index.to(c.output_type(1, at::kInt))};
}
Tensors grid_sampler_grad(const Call& c) {
  const int64_t mode = c.text("interpolation_mode", "bilinear") == "nearest";
  const std::string outside = c.text("padding_mode", "zeros");
  const int64_t padding = outside == "zeros" ? 0 : outside == "border" ? 1 : 2;
  auto [dx, dgrid] = at::grid_sampler_2d_backward(c.in[0], c.in[1], c.in[2], mode, padding, c.integer("align_corners") != 0, {true, true});
  return {dx, dgrid};
}
Tensor grid_sampler(const Call& c) {
  const std::string how = c.text("interpolation_mode", "bilinear"), outside = c.text("padding_mode", "zeros");
  const int64_t mode = how == "bilinear" ? 0 : how == "nearest" ? 1 : 2, padding = outside == "zeros" ? 0 : outside == "border" ? 1 : 2;
  return at::grid_sampler(c.in[0], c.in[1], mode, padding, c.integer("align_corners") != 0);
}
Tensor resize_nearest_grad(const Call& c) {
  const Tensor& dy = c.in[0];
  const Ints size = c.values(1);
  return at::upsample_nearest2d_backward(dy, dy.sizes().slice(2), {dy.size(0), dy.size(1), size.at(0), size.at(1)});
}
Tensors nll_loss(const Call& c) {
  const std::string how = c.text("reduction", "mean");
  const int64_t reduction = how == "none" ? 0 : how == "mean" ? 1 : 2;
  auto [loss, total] =
      at::nll_loss_forward(c.in[0], c.in[1].to(at::kLong), c.optional(2), reduction, c.integer("ignore_index", -100));
  return {loss, total};
}

at::Generator generator(const Tensor& seed, const Tensor& offset) {
  // The offset may be a counter of two numbers, the second of which counts.
  const uint64_t at = offset.to(at::kLong).sum().item<int64_t>();
  const uint64_t mixed = seed.to(at::kLong).flatten()[0].item<int64_t>() * 0x9E3779B97F4A7C15ull + at;
  return at::detail::createCPUGenerator(mixed);
}
// One bit per element, set with the probability of being kept, in bytes padded to 128 elements.
Tensor dropout_mask(const Call& c) {
  int64_t count = 1;
  for (const int64_t size : c.values(0)) count *= size;
  const int64_t padded = (count + 127) / 128 * 128;
  const Tensor bits = at::rand({padded}, generator(c.in[2], c.given(4) ? c.in[4] : c.in[3])).lt(c.in[1].item<double>());
  const Tensor weights = at::tensor({1, 2, 4, 8, 16, 32, 64, 128}, at::kInt);
  return (bits.view({-1, 8}).to(at::kInt) * weights).sum(-1).to(at::kByte);
}
Tensor apply_mask(const Call& c) {
  const Tensor shifts = at::arange(8, at::kByte);
  const Tensor bits = c.in[1].flatten().unsqueeze(1).bitwise_right_shift(shifts).bitwise_and(1).flatten();
  const Tensor kept = bits.slice(0, 0, c.in[0].numel()).view_as(c.in[0]).to(c.in[0].scalar_type());
  return c.in[0] * kept / c.in[2].to(c.in[0].scalar_type());
}
at::ScalarType random_type(const Call& c) { return c.has("dtype") ? type_of_api(c.integer("dtype")) : at::kFloat; }
Tensor bernoulli(const Call& c) {
  const Tensor dice = at::rand(c.values(0), generator(c.in[2], c.in[3]));
  return dice.lt(c.in[1].to(at::kFloat)).to(random_type(c));
}
Tensor resize_nearest(const Call& c) { return at::upsample_nearest2d(c.in[0], c.values(1)); }
Tensor softmax_grad(const Call& c) {
  const Tensor y = c.in[0].to(at::kFloat), grad = c.in[1].to(at::kFloat);
  const Ints axes = c.ints("axes", {-1});
  return (y * (grad - (grad * y).sum(axes, true))).to(c.in[0].scalar_type());
}
Tensor log_softmax_grad(const Call& c) {
  const Tensor grad = c.in[0].to(at::kFloat), y = c.in[1].to(at::kFloat);
  const Ints axes = c.ints("axis", {-1});
  return (grad - y.exp() * grad.sum(axes, true)).to(c.in[0].scalar_type());
}
}  // namespace

void add_layers(Table& table) {
  AIR_SIM_GE_OP(Conv2D, convolution(c, x[0], x[1], c.optional(2), false));
  AIR_SIM_GE_OP(Conv3D, convolution(c, x[0], x[1], c.optional(2), false));
  AIR_SIM_GE_OP(Conv2DTranspose, convolution(c, x[1], x[2], c.optional(3), true));
  AIR_SIM_GE_OP(Conv3DTranspose, convolution(c, x[1], x[2], c.optional(3), true));
  AIR_SIM_GE_OPS(LayerNormV4, layer_norm(c));
  AIR_SIM_GE_OPS(GroupNorm, group_norm_with_variance(c));
  AIR_SIM_GE_OPS(GroupNormV2, group_norm(c, 1e-5));
  AIR_SIM_GE_OPS(BatchNormV3, batch_norm(c));
  AIR_SIM_GE_OP(BNInfer, batch_norm_inference(c));
  AIR_SIM_GE_OP(SoftmaxV2, softmax(c));
  AIR_SIM_GE_OP(LogSoftmaxV2, at::log_softmax(x[0], axis_of(c)));
  AIR_SIM_GE_OP(SoftmaxGrad, softmax_grad(c));
  AIR_SIM_GE_OP(LogSoftmaxGrad, log_softmax_grad(c));
  AIR_SIM_GE_OP(AdaptiveAvgPool2d, at::adaptive_avg_pool2d(x[0], c.ints("output_size")));
  AIR_SIM_GE_OP(AvgPoolV2, average_pool(c));
  AIR_SIM_GE_OPS(MaxPoolWithArgmaxV1, max_pool_with_argmax(c));
  AIR_SIM_GE_OPS(MaxPoolWithArgmaxV3, max_pool_with_places(c));
  AIR_SIM_GE_OP(GridSampler2D, grid_sampler(c));
  AIR_SIM_GE_OP(GridSampler3D, grid_sampler(c));
  AIR_SIM_GE_OPS(GridSampler2DGrad, grid_sampler_grad(c));
  AIR_SIM_GE_OP(ResizeNearestNeighborV2Grad, resize_nearest_grad(c));
  AIR_SIM_GE_OPS(NLLLoss, nll_loss(c));
  AIR_SIM_GE_OP(ResizeNearestNeighborV2, resize_nearest(c));
  AIR_SIM_GE_OP(StatelessDropOutGenMask, dropout_mask(c));
  AIR_SIM_GE_OP(DropOutDoMask, apply_mask(c));
  AIR_SIM_GE_OP(StatelessBernoulli, bernoulli(c));
  AIR_SIM_GE_OP(StatelessRandomUniformV2, at::rand(c.values(0), generator(x[1], x[2])).to(random_type(c)));
  AIR_SIM_GE_OP(StatelessRandomNormalV2, at::randn(c.values(0), generator(x[1], x[2])).to(random_type(c)));
}
}  // namespace air_sim::graph_engine
