// Gradients of normalisations: operands of half precision, statistics in single precision and weights of either belong together.
#include <air_sim/half.h>

#include "kernels.h"

namespace air_sim {
namespace {
Tensor widened(const Call& c, const char* name) { return air_sim::widened(c.tensor(name)); }
std::optional<Tensor> widened_if_given(const Call& c, const char* name) {
  return c.has(name) ? std::optional<Tensor>(widened(c, name)) : std::nullopt;
}
std::array<bool, 3> wanted(const Call& c) {
  const std::vector<bool> mask = c.bools("mask");
  return {mask.at(0), mask.at(1), mask.at(2)};
}
void write_gradients(Call& c, const std::tuple<Tensor, Tensor, Tensor>& found) {
  const auto& [input, weight, bias] = found;
  if (input.defined()) c.write("grad_input", input);
  if (weight.defined()) c.write("grad_weight", weight);
  if (bias.defined()) c.write("grad_bias", bias);
}

const Family gradients_of_norms({
    {"LayerNormBackward(T grad, T self, I shape, T mean, T rstd, T? weight, T? bias, B mask, T! grad_input, T! grad_weight, T! grad_bias)",
     [](Call& c) {
       write_gradients(c, at::native_layer_norm_backward(widened(c, "grad"), widened(c, "self"), c.ints("shape"), widened(c, "mean"),
                                                         widened(c, "rstd"), widened_if_given(c, "weight"), widened_if_given(c, "bias"),
                                                         wanted(c)));
     }},
    {"GroupNormBackward(T grad, T self, T mean, T rstd, T? weight, i N, i C, i HxW, i group, B mask, T! grad_input, T? grad_weight, "
     "T? grad_bias)",
     [](Call& c) {
       write_gradients(c, at::native_group_norm_backward(widened(c, "grad"), widened(c, "self"), widened(c, "mean"), widened(c, "rstd"),
                                                         widened_if_given(c, "weight"), c.integer("N"), c.integer("C"), c.integer("HxW"),
                                                         c.integer("group"), wanted(c)));
     }},
    {"BatchNormBackward(T grad, T self, T? weight, T? running_mean, T? running_var, T? save_mean, T? save_invstd, b train, d eps, "
     "B mask, T! grad_input, T! grad_weight, T! grad_bias)",
     [](Call& c) {
       write_gradients(c, at::native_batch_norm_backward(widened(c, "grad"), widened(c, "self"), widened_if_given(c, "weight"),
                                                         widened_if_given(c, "running_mean"), widened_if_given(c, "running_var"),
                                                         widened_if_given(c, "save_mean"), widened_if_given(c, "save_invstd"),
                                                         c.flag("train"), c.real("eps"), wanted(c)));
     }},
});
}  // namespace
}  // namespace air_sim
