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

// A target of 0 adds nothing to the loss, and has no slope.
void kl_div_target_backward(Call& c) {
  const Tensor self = wide(c, "self"), target = wide(c, "target");
  const Tensor slope = c.flag("log_target") ? target.exp() * (target + 1 - self)
                                            : at::where(target > 0, target.log() + 1 - self, at::zeros_like(target));
  write_gradient(c, slope.expand(at::infer_size(self.sizes(), target.sizes())));
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

// ---------------------------------------------------------------- cross entropy with the logarithms it is made of
// What a row of the input weighs: its class's weight, 0 where it is ignored.
struct Rows {
  Tensor classes, weight, each;  // (rows), (classes), (rows)
};
Rows rows_of(const Call& c, const Tensor& like) {
  TORCH_CHECK(c.real("square_scale") == 0, "lse_square_scale_for_zloss is not implemented by air-sim");
  const Tensor target = c.tensor("target").to(at::kLong), taken = target != c.integer("ignore");
  const Tensor weight = c.has("weight") ? wide(c, "weight") : at::ones({like.size(1)}, at::kFloat);
  const Tensor classes = at::where(taken, target, at::zeros_like(target));
  return {classes, weight, weight.index_select(0, classes) * taken};
}
void cross_entropy(Call& c) {
  const Tensor logs = wide(c, "input").log_softmax(1);
  const Rows rows = rows_of(c, logs);
  const double smoothing = c.real("smoothing"), classes = static_cast<double>(logs.size(1));
  Tensor loss = -logs.gather(1, rows.classes.unsqueeze(1)).squeeze(1) * rows.each * (1 - smoothing);
  if (smoothing != 0) loss = loss - at::matmul(logs, rows.weight) * (c.tensor("target") != c.integer("ignore")) * (smoothing / classes);
  const std::string how = c.text("reduction");
  if (how != "none") loss = how == "mean" ? loss.sum() / rows.each.sum() : loss.sum();
  c.write("loss", loss);
  c.write("log_prob", logs);
}
void cross_entropy_backward(Call& c) {
  const Tensor logs = wide(c, "log_prob"), p = logs.exp();
  const Rows rows = rows_of(c, logs);
  const double smoothing = c.real("smoothing"), classes = static_cast<double>(logs.size(1));
  Tensor slope = (p - at::zeros_like(p).scatter(1, rows.classes.unsqueeze(1), 1)) * rows.each.unsqueeze(1) * (1 - smoothing);
  if (smoothing != 0) {
    const Tensor taken = (c.tensor("target") != c.integer("ignore")).unsqueeze(1);
    slope = slope + (p * rows.weight.sum() - rows.weight) * taken * (smoothing / classes);
  }
  Tensor grad = wide(c, "grad");
  if (c.text("reduction") == "mean") grad = grad / rows.each.sum();
  c.write("out", slope * (grad.dim() == 1 && grad.numel() == logs.size(0) ? grad.unsqueeze(1) : grad));
}

const Family cross_entropies({
    {"CrossEntropyLoss(T input, T target, T? weight, s reduction, i ignore, d smoothing, d square_scale, b squares, T! loss, T! log_prob, "
     "T! zloss, T! lse)",
     cross_entropy},
    {"CrossEntropyLossGrad(T grad, T log_prob, T target, T? weight, T? grad_zloss, T? lse, s reduction, i ignore, d smoothing, "
     "d square_scale, T! out)",
     cross_entropy_backward},
});

const Family loss_gradients({
    {"L1LossBackward(T grad, T self, T target, i reduction, T! out)", l1_backward},
    {"KlDivBackward(T grad, T self, T target, i reduction, b log_target, T! out)", kl_div_backward},
    {"KlDivTargetBackward(T grad, T self, T target, i reduction, b log_target, T! out)", kl_div_target_backward},
    {"BinaryCrossEntropyWithLogitsBackward(T grad, T self, T target, T? weight, T? pos_weight, i reduction, T! out)",
     cross_entropy_of_logits_backward},
    // The forward pass of the device leaves its buffer empty.
    {"LogSigmoidBackward(T grad, T self, T? buffer, T! out)",
     [](Call& c) { c.write("out", wide(c, "grad") * at::sigmoid(-wide(c, "self"))); }},
});
}  // namespace
}  // namespace air_sim
