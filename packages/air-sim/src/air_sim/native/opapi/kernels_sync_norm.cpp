// Batch normalisation over several devices, in its parts: libtorch has these on GPUs alone.
#include "kernels.h"

namespace air_sim {
namespace {
Tensor single(const Call& c, const char* name) { return c.tensor(name).to(at::kFloat); }
// Numbers of the channels, against a batch of channels and places.
Tensor by_channel(const Tensor& numbers, const Tensor& x) {
  std::vector<int64_t> shape(x.dim(), 1);
  shape[1] = x.size(1);
  return numbers.to(at::kFloat).reshape(shape);
}
Tensor sum_of_channels(const Tensor& x) {
  std::vector<int64_t> others{0};
  for (int64_t d = 2; d < x.dim(); ++d) others.push_back(d);
  return x.sum(others);
}
Tensor weight_of(const Call& c, const Tensor& x) { return c.has("weight") ? by_channel(c.tensor("weight"), x) : at::ones({}, at::kFloat); }

void statistics(Call& c) {
  const Tensor x = single(c, "input");
  const double count = static_cast<double>(x.numel() / std::max<int64_t>(x.size(1), 1));
  const Tensor mean = sum_of_channels(x) / count, away = x - by_channel(mean, x);
  c.write("mean", mean);
  c.write("invstd", (sum_of_channels(away * away) / count + c.real("eps")).rsqrt());
}
// Means and deviations of each device (devices, channels), and how many elements each had.
void gathered_statistics(Call& c) {
  const Tensor counts = single(c, "counts").reshape({-1, 1}), means = single(c, "mean"), total = counts.sum();
  const Tensor variances = single(c, "invstd").pow(-2) - c.real("eps");
  const Tensor mean = (means * counts).sum(0) / total;
  const Tensor variance = ((variances + (means - mean).pow(2)) * counts).sum(0) / total;
  const double momentum = c.real("momentum");
  if (c.has("running_mean")) c.tensor("running_mean").mul_(1 - momentum).add_(mean * momentum);
  if (c.has("running_var")) c.tensor("running_var").mul_(1 - momentum).add_(variance * (total / (total - 1)) * momentum);
  c.write("out_mean", mean);
  c.write("out_invstd", (variance + c.real("eps")).rsqrt());
}
void normalised(Call& c) {
  const Tensor x = single(c, "input");
  const Tensor y = (x - by_channel(c.tensor("mean"), x)) * by_channel(c.tensor("invstd"), x) * weight_of(c, x);
  c.write("out", c.has("bias") ? y + by_channel(c.tensor("bias"), x) : y);
}
void reduced_backward(Call& c) {
  const Tensor x = single(c, "input"), dy = single(c, "grad");
  const Tensor sum = sum_of_channels(dy), weighed = sum_of_channels(dy * (x - by_channel(c.tensor("mean"), x)));
  if (c.flag("input_g")) {
    c.write("sum_dy", sum);
    c.write("sum_dy_xmu", weighed);
  }
  if (c.flag("weight_g")) c.write("grad_weight", weighed * single(c, "invstd"));
  if (c.flag("bias_g")) c.write("grad_bias", sum);
}
void normalised_backward(Call& c) {
  const Tensor x = single(c, "input"), total = single(c, "count").sum(), invstd = by_channel(c.tensor("invstd"), x);
  const Tensor away = (x - by_channel(c.tensor("mean"), x)) * invstd * invstd;
  const Tensor dy = single(c, "grad") - by_channel(c.tensor("sum_dy"), x) / total - away * by_channel(c.tensor("sum_dy_xmu"), x) / total;
  c.write("out", dy * invstd * weight_of(c, x));
}

const Family synchronised_norms({
    {"BatchNormStats(T input, d eps, T! mean, T! invstd)", statistics},
    {"BatchNormGatherStatsWithCounts(T input, T mean, T invstd, T? running_mean, T? running_var, d momentum, d eps, T counts, T! out_mean, "
     "T! out_invstd)",
     gathered_statistics},
    {"BatchNormElemt(T input, T? weight, T? bias, T mean, T invstd, d eps, T! out)", normalised},
    {"BatchNormReduceBackward(T grad, T input, T mean, T invstd, T? weight, b input_g, b weight_g, b bias_g, T! sum_dy, T! sum_dy_xmu, "
     "T! grad_weight, T! grad_bias)",
     reduced_backward},
    {"BatchNormElemtBackward(T grad, T input, T mean, T invstd, T? weight, T sum_dy, T sum_dy_xmu, T count, T! out)", normalised_backward},
});

// Others that libtorch has on GPUs alone.
const Family of_gpus({
    {"MaskedScale(T self, T mask, d scale, T! out)",
     [](Call& c) { c.write("out", c.tensor("self") * c.tensor("mask") * c.real("scale")); }},
    {"ConvDepthwise2d(T self, T weight, I kernel, T? bias, I stride, I padding, I dilation, T! out, c cube)",
     [](Call& c) {
       const Tensor x = c.tensor("self");
       c.write("out", at::conv2d(x, c.tensor("weight"), c.optional("bias"), c.ints("stride"), c.ints("padding"), c.ints("dilation"), x.size(1)));
     }},
});
}  // namespace
}  // namespace air_sim
