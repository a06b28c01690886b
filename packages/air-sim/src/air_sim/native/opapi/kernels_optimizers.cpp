// Steps of optimizers in one call.
#include "kernels.h"

namespace air_sim {
namespace {
std::optional<Tensor> if_given(const Call& c, const char* name) {
  return c.has(name) && c.tensor(name).numel() ? std::optional<Tensor>(c.tensor(name)) : std::nullopt;
}
// `step` counts the steps before this one.
void adamw(Call& c) {
  std::vector<Tensor> largest;
  if (c.flag("amsgrad")) largest.push_back(c.tensor("max_v"));
  at::_fused_adamw_({c.tensor("var")}, {c.tensor("grad")}, {c.tensor("m")}, {c.tensor("v")}, largest, {c.tensor("step").to(at::kFloat) + 1}, c.real("lr"),
                    c.real("beta1"), c.real("beta2"), c.real("weight_decay"), c.real("eps"), c.flag("amsgrad"), c.flag("maximize"));
}
void sgd(Call& c) {
  at::_fused_sgd_(c.tensors("params"), c.tensors("grads"), c.tensors("momenta"), c.real("weight_decay"), c.real("momentum"), c.real("lr"),
                  c.real("dampening"), c.flag("nesterov"), c.flag("maximize"), c.flag("first"), if_given(c, "grad_scale"));
}

const Family optimizers({
    {"ApplyAdamWV2(T! var, T! m, T! v, T? max_v, T grad, T step, f lr, f beta1, f beta2, f weight_decay, f eps, b amsgrad, b maximize)", adamw},
    {"FusedSgd(L! params, L grads, L! momenta, T? grad_scale, f weight_decay, f momentum, f lr, f dampening, b nesterov, b maximize, b first)", sgd},
});
}  // namespace
}  // namespace air_sim
