// Steps of optimizers in one call.
#include "kernels.h"

namespace air_sim {
namespace {
std::optional<Tensor> if_given(const Call& c, const char* name) {
  return c.has(name) && c.tensor(name).numel() ? std::optional<Tensor>(c.tensor(name)) : std::nullopt;
}
// Steps are counted before this one, and the largest moments mean nothing to an optimizer that does not keep them.
void adamw(Call& c) {
  std::vector<Tensor> largest;
  if (c.flag("amsgrad")) largest.push_back(c.tensor("max_v"));
  at::_fused_adamw_({c.tensor("var")}, {c.tensor("grad")}, {c.tensor("m")}, {c.tensor("v")}, largest, {c.tensor("step").to(at::kFloat) + 1}, c.real("lr"),
                    c.real("beta1"), c.real("beta2"), c.real("weight_decay"), c.real("eps"), c.flag("amsgrad"), c.flag("maximize"));
}
void adam(Call& c) {
  std::vector<Tensor> largest, steps;
  if (c.flag("amsgrad")) largest = c.tensors("max_v");
  for (const Tensor& step : c.tensors("steps")) steps.push_back(step.to(at::kFloat) + 1);
  at::_fused_adam_(c.tensors("params"), c.tensors("grads"), c.tensors("m"), c.tensors("v"), largest, steps, c.real("lr"),
                   c.real("beta1"), c.real("beta2"), c.real("weight_decay"), c.real("eps"), c.flag("amsgrad"), c.flag("maximize"),
                   if_given(c, "grad_scale"), if_given(c, "found_inf"));
}
void sgd(Call& c) {
  at::_fused_sgd_(c.tensors("params"), c.tensors("grads"), c.tensors("momenta"), c.real("weight_decay"), c.real("momentum"), c.real("lr"),
                  c.real("dampening"), c.flag("nesterov"), c.flag("maximize"), c.flag("first"), if_given(c, "grad_scale"));
}

const Family optimizers({
    {"ApplyAdamWV2(T! var, T! m, T! v, T? max_v, T grad, T step, f lr, f beta1, f beta2, f weight_decay, f eps, b amsgrad, b maximize)", adamw},
    {"FusedAdam(L! params, L grads, L! m, L! v, L! max_v, L steps, T? grad_scale, T? found_inf, d lr, d beta1, d beta2, d weight_decay, d eps, "
     "b amsgrad, b maximize)",
     adam},
    {"FusedSgd(L! params, L grads, L! momenta, T? grad_scale, f weight_decay, f momentum, f lr, f dampening, b nesterov, b maximize, b first)", sgd},
});
}  // namespace
}  // namespace air_sim
