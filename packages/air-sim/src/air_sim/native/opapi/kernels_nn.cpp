// Pooling and resampling whose numbers need care: window masks, scales given as 0 for "none", averages with a divisor.
#include "kernels.h"
#include <algorithm>

namespace air_sim {
namespace {
std::optional<double> scale_of(const Call& c, const char* name) {
  double scale = c.real(name);
  return scale > 0 ? std::optional<double>(scale) : std::nullopt;
}
std::optional<int64_t> divisor_of(const Call& c) {
  int64_t divisor = c.integer("divisor");
  return divisor ? std::optional<int64_t>(divisor) : std::nullopt;
}

// The mask of MaxPool2dWithMask is opaque to its users; ours is unused, because the backward pass finds the maxima again.
void max_pool_with_mask(Call& c) {
  c.write("out", std::get<0>(at::max_pool2d_with_indices(c.tensor("self"), c.ints("kernel"), c.ints("stride"), c.ints("padding"),
                                                         c.ints("dilation"), c.flag("ceil"))));
}
void max_pool_with_mask_backward(Call& c) {
  Tensor self = c.tensor("self");
  auto kernel = c.ints("kernel"), stride = c.ints("stride"), padding = c.ints("padding"), dilation = c.ints("dilation");
  auto indices = std::get<1>(at::max_pool2d_with_indices(self, kernel, stride, padding, dilation, c.flag("ceil")));
  c.write("out", at::max_pool2d_with_indices_backward(c.tensor("grad"), self, kernel, stride, padding, dilation, c.flag("ceil"), indices));
}

#define POOL "I kernel, I stride, I padding, "
const Family pooling({
    {"MaxPool2dWithMask(T self, " POOL "I dilation, b ceil, T! out, T! mask)", max_pool_with_mask},
    {"MaxPool2dWithMaskBackward(T grad, T self, T mask, " POOL "I dilation, b ceil, T! out)", max_pool_with_mask_backward},
    {"AvgPool2d(T self, " POOL "b ceil, b count_pad, i divisor, c cube, T! out)",
     [](Call& c) {
       c.write("out", at::avg_pool2d(c.tensor("self"), c.ints("kernel"), c.ints("stride"), c.ints("padding"), c.flag("ceil"), c.flag("count_pad"), divisor_of(c)));
     }},
    {"AvgPool2dBackward(T grad, T self, " POOL "b ceil, b count_pad, i divisor, c cube, T! out)",
     [](Call& c) {
       c.write("out", at::avg_pool2d_backward(c.tensor("grad"), c.tensor("self"), c.ints("kernel"), c.ints("stride"), c.ints("padding"),
                                              c.flag("ceil"), c.flag("count_pad"), divisor_of(c)));
     }},
    {"AvgPool3d(T self, " POOL "b ceil, b count_pad, i divisor, T! out)",
     [](Call& c) {
       c.write("out", at::avg_pool3d(c.tensor("self"), c.ints("kernel"), c.ints("stride"), c.ints("padding"), c.flag("ceil"), c.flag("count_pad"), divisor_of(c)));
     }},
    {"AvgPool3dBackward(T grad, T self, " POOL "b ceil, b count_pad, i divisor, T! out)",
     [](Call& c) {
       c.write("out", at::avg_pool3d_backward(c.tensor("grad"), c.tensor("self"), c.ints("kernel"), c.ints("stride"), c.ints("padding"),
                                              c.flag("ceil"), c.flag("count_pad"), divisor_of(c)));
     }},
});

const Family resampling({
    {"UpsampleNearest1dV2(T self, I size, f scale, T! out)",
     [](Call& c) { c.write("out", at::upsample_nearest1d(c.tensor("self"), c.ints("size"), scale_of(c, "scale"))); }},
    {"UpsampleNearest2dV2(T self, I size, f scale_h, f scale_w, T! out)",
     [](Call& c) { c.write("out", at::upsample_nearest2d(c.tensor("self"), c.ints("size"), scale_of(c, "scale_h"), scale_of(c, "scale_w"))); }},
});

// The device rounds the last dimension of log_alpha up; what lies beyond 2 * longest target + 1 is not used.
int64_t alpha_width(const Call& c) {
  auto lengths = c.ints("target_lengths");
  return 2 * *std::max_element(lengths.begin(), lengths.end()) + 1;
}
const Family connectionist({
    {"CtcLoss(T log_probs, T targets, I input_lengths, I target_lengths, i blank, b zero_infinity, T! out, T! log_alpha)",
     [](Call& c) {
       auto [loss, alpha] = at::_ctc_loss(c.tensor("log_probs"), c.tensor("targets"), c.ints("input_lengths"), c.ints("target_lengths"),
                                          c.integer("blank"), c.flag("zero_infinity"));
       c.write("out", loss);
       c.tensor("log_alpha").narrow(-1, 0, alpha.size(-1)).copy_(alpha);
     }},
    {"CtcLossBackward(T grad, T log_probs, T targets, I input_lengths, I target_lengths, T loss, T log_alpha, i blank, b zero_infinity, T! out)",
     [](Call& c) {
       c.write("out", at::_ctc_loss_backward(c.tensor("grad"), c.tensor("log_probs"), c.tensor("targets"), c.ints("input_lengths"),
                                             c.ints("target_lengths"), c.tensor("loss"), c.tensor("log_alpha").narrow(-1, 0, alpha_width(c)),
                                             c.integer("blank"), c.flag("zero_infinity")));
     }},
});

// The slopes are one number, or one for each channel: their gradient is the sum over all else.
void prelu_backward(Call& c) {
  const Tensor self = c.tensor("self"), weight = c.tensor("weight"), out = c.tensor("grad_weight");
  std::vector<int64_t> channels(self.dim(), 1);
  if (weight.numel() != 1) channels.at(self.dim() > 1 ? 1 : 0) = weight.numel();
  auto [grad_input, grad_weight] = at::_prelu_kernel_backward(c.tensor("grad"), self, weight.reshape(channels));
  c.write("grad_input", grad_input);
  c.write("grad_weight", at::sum_to(grad_weight, channels).reshape(out.sizes()));
}
const Family slopes_of_activations({
    {"PreluBackward(T grad, T self, T weight, T! grad_input, T! grad_weight)", prelu_backward},
});

// Tensors of other sizes are not equal: they are not broadcast.
const Family equal_tensors({
    {"Equal(T self, T other, T! out)", [](Call& c) { c.write("out", at::scalar_tensor(c.tensor("self").equal(c.tensor("other")), at::kBool)); }},
});

// Statistics of batch normalisation over several devices.
const Family batch_statistics({
    {"BatchNormReduce(T self, T! sum, T! square_sum)",
     [](Call& c) {
       Tensor self = c.tensor("self").to(at::kFloat);
       std::vector<int64_t> dims{0};
       for (int64_t d = 2; d < self.dim(); ++d) dims.push_back(d);
       c.write("sum", self.sum(dims));
       c.write("square_sum", (self * self).sum(dims));
     }},
    {"SyncBatchNormGatherStats(T sum, T square_sum, T counts, T! running_mean, T! running_var, f momentum, f eps, T! mean, T! invstd)",
     [](Call& c) {
       Tensor total = c.tensor("counts").to(at::kFloat).sum();
       Tensor mean = c.tensor("sum").to(at::kFloat).sum(0) / total;
       Tensor var = c.tensor("square_sum").to(at::kFloat).sum(0) / total - mean * mean;
       c.write("mean", mean);
       c.write("invstd", (var + c.real("eps")).rsqrt());
       double momentum = c.real("momentum");
       if (Tensor running = c.tensor("running_mean"); running.defined()) running.mul_(1 - momentum).add_(mean, momentum);
       if (Tensor running = c.tensor("running_var"); running.defined()) running.mul_(1 - momentum).add_(var * total / (total - 1), momentum);
     }},
});
}  // namespace
}  // namespace air_sim

#undef POOL
