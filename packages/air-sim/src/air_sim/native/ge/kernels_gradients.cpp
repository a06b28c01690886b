// Gradients of layers, and the layers of volumes and bags that training programs ask for beside them.
#include <ATen/CPUGeneratorImpl.h>

#include <array>

#include "kernels.h"

namespace air_sim::graph_engine {
namespace {
// The last entries of a list that may speak of batch and channels as well; of pads, those before each axis.
Ints last(const Ints& list, size_t axes) { return {list.end() - axes, list.end()}; }
Ints before(const Ints& pads, size_t axes) {
  if (pads.size() < 2 * axes) return last(pads, axes);
  Ints found;
  for (size_t axis = 0; axis < axes; ++axis) found.push_back(pads[pads.size() - 2 * axes + 2 * axis]);
  return found;
}

// The gradient of a convolution for its input (`which` 0) or its filter (1); the other one only lends its sizes.
Tensor convolution_grad(const Call& c, const Tensor& dy, const Tensor& input, const Tensor& filter, size_t which) {
  const size_t axes = dy.dim() - 2;
  const auto found = at::convolution_backward(dy, input, filter, at::nullopt, last(c.ints("strides"), axes),
                                              before(c.ints("pads"), axes), last(c.ints("dilations", Ints(axes, 1)), axes), false,
                                              Ints(axes, 0), c.integer("groups", 1), std::array<bool, 3>{which == 0, which == 1, false});
  return which == 0 ? std::get<0>(found) : std::get<1>(found);
}
Tensor average_pool_grad(const Call& c) {
  const Tensor& dy = c.in[1];
  const int64_t divisor = c.integer("divisor_override");
  return at::avg_pool2d_backward(dy, at::empty(c.values(0), dy.options()), last(c.ints("ksize"), 2), last(c.ints("strides"), 2),
                                 before(c.ints("pads"), 2), c.integer("ceil_mode") != 0, c.integer("exclusive", 1) == 0,
                                 divisor ? at::optional<int64_t>(divisor) : at::nullopt);
}
Tensor average_pool_3d(const Call& c) {
  const int64_t divisor = c.integer("divisor_override");
  return at::avg_pool3d(c.in[0], last(c.ints("ksize"), 3), last(c.ints("strides"), 3), before(c.ints("pads"), 3),
                        c.integer("ceil_mode") != 0, c.integer("count_include_pad", 1) != 0,
                        divisor ? at::optional<int64_t>(divisor) : at::nullopt);
}
// A number for depth, height and width each.
Ints of_volume(const Call& c, const char* name, const Ints& otherwise = {}) {
  const Ints numbers = c.ints(name, otherwise);
  TORCH_CHECK(numbers.size() == 3, name, " needs three numbers, not ", numbers.size());
  return numbers;
}
Tensors max_pool_3d(const Call& c) {
  auto [y, places] = at::max_pool3d_with_indices(c.in[0], of_volume(c, "ksize"), of_volume(c, "strides"), of_volume(c, "pads"),
                                                 of_volume(c, "dilation", {1, 1, 1}), c.integer("ceil_mode") != 0);
  return {y, places.to(c.output_type(1, at::kInt))};
}
Tensor max_pool_grad(const Call& c) {
  const Tensor& x = c.in[0];
  return at::zeros_like(x).flatten(2).scatter_add(2, c.in[2].to(at::kLong).flatten(2), c.in[1].flatten(2)).view(x.sizes());
}
// Adds every padded element to the one that it was copied from, axis by axis; pairs of pads, from the first axis.
Tensor pad_grad(const Call& c) {
  const Ints pads = c.values(1);
  const bool edge = c.text("mode", "reflect") == "edge";
  Tensor x = c.in[0];
  for (int64_t axis = 0; axis < x.dim(); ++axis) {
    const int64_t ahead = pads.at(2 * axis), behind = pads.at(2 * axis + 1);
    if (ahead == 0 && behind == 0) continue;
    const int64_t length = x.size(axis) - ahead - behind;
    Tensor places = at::arange(-ahead, length + behind);
    if (edge) {
      places = places.clamp(0, length - 1);
    } else {
      places = places.abs();
      places = at::where(places.ge(length), 2 * (length - 1) - places, places);
    }
    Ints sizes = x.sizes().vec();
    sizes[axis] = length;
    x = at::zeros(sizes, x.options()).index_add(axis, places, x);
  }
  return x;
}
Tensor elu_grad(const Call& c) {
  return at::elu_backward(c.in[0], c.real("alpha", 1), c.real("scale", 1), c.real("input_scale", 1), c.integer("is_result") != 0, c.in[1]);
}
Tensor mean_squared_error(const Call& c) {
  const std::string how = c.text("reduction", "mean");
  return at::mse_loss(c.in[0], c.in[1], how == "none" ? 0 : how == "mean" ? 1 : 2);
}
Tensors embedding_bag(const Call& c) {
  const std::string mode = c.text("mode", "mean");
  const Tensor starts = c.given(2) ? c.in[2].contiguous() : at::zeros({1}, c.in[1].options());
  auto [y, bags, sizes, largest] = at::_embedding_bag(
      c.in[0], c.in[1].contiguous(), starts, c.integer("scale_grad_by_freq") != 0, mode == "sum" ? 0 : mode == "mean" ? 1 : 2, false,
      c.optional(3), c.integer("include_last_offset") != 0, c.integer("padding_idx", -1));
  return {y, bags, sizes, largest};
}
at::Generator generator(const Call& c, size_t seed) {
  const uint64_t first = c.in[seed].to(at::kLong).flatten()[0].item<int64_t>();
  return at::detail::createCPUGenerator(first * 0x9E3779B97F4A7C15ull + c.in[seed + 1].to(at::kLong).sum().item<int64_t>());
}
Tensor permutation(const Call& c) { return at::randperm(c.value(0), generator(c, 1)).to(c.output_type(0, at::kLong)); }
Tensor drawn(const Call& c) {
  return at::multinomial(c.in[0], c.integer("numsamples"), c.integer("replacement") != 0, generator(c, 1));
}
at::Generator generator(const Call& c) {  // a seed of two numbers
  const Tensor seed = c.in[1].to(at::kLong).flatten();
  return at::detail::createCPUGenerator(seed[0].item<int64_t>() * 0x9E3779B97F4A7C15ull + seed[1].item<int64_t>());
}
// A parameter of a distribution for each number that is drawn.
Tensor spread(const Call& c, size_t input) { return c.in[input].expand(c.values(0)).contiguous(); }
}  // namespace

void add_gradients(Table& table) {
  AIR_SIM_GE_OP(Conv2DBackpropInput, convolution_grad(c, x[2], at::empty(c.values(0), x[2].options()), x[1], 0));
  AIR_SIM_GE_OP(Conv3DBackpropInput, convolution_grad(c, x[2], at::empty(c.values(0), x[2].options()), x[1], 0));
  AIR_SIM_GE_OP(Conv2DBackpropFilter, convolution_grad(c, x[2], x[0], at::empty(c.values(1), x[2].options()), 1));
  AIR_SIM_GE_OP(Conv3DBackpropFilter, convolution_grad(c, x[2], x[0], at::empty(c.values(1), x[2].options()), 1));
  AIR_SIM_GE_OP(AvgPoolV2Grad, average_pool_grad(c));
  AIR_SIM_GE_OP(AdaptiveAvgPool2dGrad, at::_adaptive_avg_pool2d_backward(x[0], at::empty(c.ints("orig_input_shape"), x[0].options())));
  AIR_SIM_GE_OP(MaxPoolGradWithArgmaxV3, max_pool_grad(c));
  AIR_SIM_GE_OP(MaxPool3DGradWithArgmax, max_pool_grad(c));
  AIR_SIM_GE_OP(AvgPool3D, average_pool_3d(c));
  AIR_SIM_GE_OPS(MaxPool3DWithArgmaxV2, max_pool_3d(c));
  AIR_SIM_GE_OP(PadV3Grad, pad_grad(c));
  AIR_SIM_GE_OP(EluGradV2, elu_grad(c));
  AIR_SIM_GE_OP(LogSigmoidGrad, x[0] * at::sigmoid(-x[1]));
  AIR_SIM_GE_OP(GLUGrad, at::glu_backward(x[0], x[1], c.integer("dim", -1)));
  AIR_SIM_GE_OP(MseLoss, mean_squared_error(c));
  AIR_SIM_GE_OPS(EmbeddingBag, embedding_bag(c));
  AIR_SIM_GE_OP(StatelessRandperm, permutation(c));
  AIR_SIM_GE_OP(MultinomialWithReplacement, drawn(c));
  AIR_SIM_GE_OP(StatelessRandomGammaV2, at::_standard_gamma(spread(c, 2), generator(c)));
  AIR_SIM_GE_OP(StatelessRandomPoisson, at::poisson(spread(c, 2), generator(c)).to(c.output_type(0, x[2].scalar_type())));
  AIR_SIM_GE_OP(StatelessRandomBinomial,
                at::binomial(spread(c, 2), spread(c, 3), generator(c)).to(c.output_type(0, x[2].scalar_type())));
  AIR_SIM_GE_OP(RandomGammaGrad, at::_standard_gamma_grad(x[0], x[1]));
}
}  // namespace air_sim::graph_engine
