// Gradients of losses: an average is divided by its count here, and an operand that was broadcast gets the sum.
#include "kernels.h"

namespace air_sim {
namespace {
constexpr int64_t kMean = 1;

// What reaches each element of a loss: `grad` itself, or its share of a mean.
Tensor share_of(const Call& c, int64_t count) {
  const Tensor grad = c.tensor("grad").to(at::kFloat);
  return c.integer("reduction") == kMean ? grad / static_cast<double>(count) : grad;
}
// `slope` is the derivative of each element of the loss.
void write_gradient(Call& c, const Tensor& slope) {
  c.write("out", at::sum_to(slope * share_of(c, slope.numel()), c.tensor("out").sizes()));
}
Tensor wide(const Call& c, const char* name) { return c.tensor(name).to(at::kFloat); }

void l1_backward(Call& c) { write_gradient(c, at::sign(wide(c, "self") - wide(c, "target"))); }

void kl_div_backward(Call& c) {
  const Tensor target = wide(c, "target");
  const Tensor weight = c.flag("log_target") ? target.exp() : target.clamp_min(0);
  write_gradient(c, -weight.expand(at::infer_size(c.tensor("self").sizes(), target.sizes())));
}

void cross_entropy_of_logits_backward(Call& c) {
  const Tensor target = wide(c, "target"), p = at::sigmoid(wide(c, "self"));
  Tensor slope = p - target;
  if (c.has("pos_weight")) {
    const Tensor weighed = wide(c, "pos_weight") * target;
    slope = (weighed + 1 - target) * p - weighed;
  }
  if (c.has("weight")) slope = slope * wide(c, "weight");
  write_gradient(c, slope);
}

const Family loss_gradients({
    {"L1LossBackward(T grad, T self, T target, i reduction, T! out)", l1_backward},
    {"KlDivBackward(T grad, T self, T target, i reduction, b log_target, T! out)", kl_div_backward},
    {"BinaryCrossEntropyWithLogitsBackward(T grad, T self, T target, T? weight, T? pos_weight, i reduction, T! out)",
     cross_entropy_of_logits_backward},
    // The forward pass of the device leaves its buffer empty.
    {"LogSigmoidBackward(T grad, T self, T? buffer, T! out)",
     [](Call& c) { c.write("out", wide(c, "grad") * at::sigmoid(-wide(c, "self"))); }},
});
}  // namespace
}  // namespace air_sim
