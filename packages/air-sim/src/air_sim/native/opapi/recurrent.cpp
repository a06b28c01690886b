// The layers of recurrent networks, written out step by step in single precision.
#include <air_sim/recurrent.h>

#include "kernels.h"

namespace air_sim {
namespace {
Tensor in_float(const Tensor& x) { return x.defined() ? x.to(at::kFloat) : x; }
RecurrentInput in_float(const RecurrentInput& in) {
  return {in_float(in.x),    in_float(in.w_ih), in_float(in.w_hh), in_float(in.b_ih), in_float(in.b_hh),
          in_float(in.h),    in_float(in.c),    in_float(in.mask), in.reversed};
}
std::vector<int64_t> order_of_steps(const RecurrentInput& in) {
  std::vector<int64_t> steps(in.x.size(0));
  for (size_t s = 0; s < steps.size(); ++s) steps[s] = in.reversed ? steps.size() - 1 - s : s;
  return steps;
}
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor product = at::matmul(x, weight.t());
  return bias.defined() ? product + bias : product;
}
// `next` where a sequence goes on, `before` where it has ended.
Tensor held(const Tensor& next, const Tensor& before, const Tensor& mask) {
  return mask.defined() ? next * mask + before * (1 - mask) : next;
}
Tensor shown(const Tensor& value, const Tensor& mask) { return mask.defined() ? value * mask : value; }
Tensor step_of(const Tensor& mask, int64_t step) { return mask.defined() ? mask.select(0, step) : mask; }

// The state before each step.
Tensor states_before(const Tensor& first, const Tensor& states, bool reversed) {
  const Tensor start = first.unsqueeze(0);
  const int64_t others = states.size(0) - 1;
  return reversed ? at::cat({states.narrow(0, 1, others), start}) : at::cat({start, states.narrow(0, 0, others)});
}
Tensor zeros_of_steps(const RecurrentInput& in) { return at::zeros({in.x.size(0), in.h.size(0), in.h.size(1)}, at::kFloat); }
Tensor or_zeros(const Tensor& grad, const Tensor& like) { return grad.defined() ? grad.to(at::kFloat).reshape(like.sizes()) : at::zeros_like(like); }

// What the gradients of the gates before their activations give, over all steps.
void finish(RecurrentGradient& made, const RecurrentInput& in, const Tensor& gates_x, const Tensor& gates_h, const Tensor& before) {
  made.x = at::matmul(gates_x, in.w_ih);
  made.w_ih = at::matmul(gates_x.flatten(0, 1).t(), in.x.flatten(0, 1));
  made.w_hh = at::matmul(gates_h.flatten(0, 1).t(), before.flatten(0, 1));
  made.b_ih = gates_x.sum({0, 1});
  made.b_hh = gates_h.sum({0, 1});
}
}  // namespace

LstmTrace lstm_layer(const RecurrentInput& given) {
  const RecurrentInput in = in_float(given);
  const Tensor from_x = linear(in.x, in.w_ih, in.b_ih);
  LstmTrace t{zeros_of_steps(in), zeros_of_steps(in), zeros_of_steps(in), zeros_of_steps(in),
              zeros_of_steps(in), zeros_of_steps(in), zeros_of_steps(in), zeros_of_steps(in)};
  Tensor h = in.h, c = in.c;
  for (const int64_t s : order_of_steps(in)) {
    const auto gates = (from_x.select(0, s) + linear(h, in.w_hh, in.b_hh)).chunk(4, -1);
    const Tensor i = gates[0].sigmoid(), f = gates[1].sigmoid(), j = gates[2].tanh(), o = gates[3].sigmoid();
    const Tensor cell = f * c + i * j, tanhc = cell.tanh(), out = o * tanhc, mask = step_of(in.mask, s);
    h = held(out, h, mask);
    c = held(cell, c, mask);
    const std::pair<Tensor, Tensor> kept[] = {{t.y, shown(out, mask)}, {t.h, h}, {t.c, c}, {t.i, i}, {t.f, f}, {t.j, j}, {t.o, o}, {t.tanhc, tanhc}};
    for (const auto& [all, one] : kept) all.select(0, s).copy_(one);
  }
  return t;
}

RecurrentGradient lstm_layer_backward(const RecurrentInput& given, const LstmTrace& trace, const RecurrentOutputGradient& grad) {
  const RecurrentInput in = in_float(given);
  const Tensor before_h = states_before(in.h, in_float(trace.h), in.reversed);
  const Tensor before_c = states_before(in.c, in_float(trace.c), in.reversed);
  const Tensor dy = or_zeros(grad.y, before_h);
  Tensor dh = or_zeros(grad.h, in.h), dc = or_zeros(grad.c, in.c);
  const Tensor gates = at::zeros({in.x.size(0), in.h.size(0), 4 * in.h.size(1)}, at::kFloat);
  auto steps = order_of_steps(in);
  for (auto at = steps.rbegin(); at != steps.rend(); ++at) {
    const auto of = [&](const Tensor& all) { return in_float(all.select(0, *at)); };
    const Tensor i = of(trace.i), f = of(trace.f), j = of(trace.j), o = of(trace.o), tanhc = of(trace.tanhc), mask = step_of(in.mask, *at);
    const Tensor out = shown(dh + of(dy), mask), cell = shown(dc, mask) + out * o * (1 - tanhc * tanhc);
    const Tensor made = at::cat({cell * j * i * (1 - i), cell * of(before_c) * f * (1 - f), cell * i * (1 - j * j), out * tanhc * o * (1 - o)}, -1);
    gates.select(0, *at).copy_(made);
    dh = at::matmul(made, in.w_hh) + (mask.defined() ? dh * (1 - mask) : at::zeros_like(dh));
    dc = cell * f + (mask.defined() ? dc * (1 - mask) : at::zeros_like(dc));
  }
  RecurrentGradient result;
  finish(result, in, gates, gates, before_h);
  result.h = dh;
  result.c = dc;
  return result;
}

GruTrace gru_layer(const RecurrentInput& given) {
  const RecurrentInput in = in_float(given);
  const Tensor from_x = linear(in.x, in.w_ih, in.b_ih);
  GruTrace t{zeros_of_steps(in), zeros_of_steps(in), zeros_of_steps(in), zeros_of_steps(in), zeros_of_steps(in), zeros_of_steps(in)};
  Tensor h = in.h;
  for (const int64_t s : order_of_steps(in)) {
    const auto x = from_x.select(0, s).chunk(3, -1), hidden = linear(h, in.w_hh, in.b_hh).chunk(3, -1);
    const Tensor r = (x[0] + hidden[0]).sigmoid(), z = (x[1] + hidden[1]).sigmoid(), n = (x[2] + r * hidden[2]).tanh();
    const Tensor out = (1 - z) * n + z * h, mask = step_of(in.mask, s);
    h = held(out, h, mask);
    const std::pair<Tensor, Tensor> kept[] = {{t.y, shown(out, mask)}, {t.h, h}, {t.r, r}, {t.z, z}, {t.n, n}, {t.hn, hidden[2]}};
    for (const auto& [all, one] : kept) all.select(0, s).copy_(one);
  }
  return t;
}

RecurrentGradient gru_layer_backward(const RecurrentInput& given, const GruTrace& trace, const RecurrentOutputGradient& grad) {
  const RecurrentInput in = in_float(given);
  const Tensor before = states_before(in.h, in_float(trace.h), in.reversed), dy = or_zeros(grad.y, before);
  Tensor dh = or_zeros(grad.h, in.h);
  const Tensor gates_x = at::zeros({in.x.size(0), in.h.size(0), 3 * in.h.size(1)}, at::kFloat), gates_h = gates_x.clone();
  auto steps = order_of_steps(in);
  for (auto at = steps.rbegin(); at != steps.rend(); ++at) {
    const auto of = [&](const Tensor& all) { return in_float(all.select(0, *at)); };
    const Tensor r = of(trace.r), z = of(trace.z), n = of(trace.n), hn = of(trace.hn), mask = step_of(in.mask, *at);
    const Tensor out = shown(dh + of(dy), mask), fresh = out * (1 - z) * (1 - n * n);
    const Tensor reset = fresh * hn * r * (1 - r), update = out * (of(before) - n) * z * (1 - z);
    const Tensor hidden = at::cat({reset, update, fresh * r}, -1);
    gates_x.select(0, *at).copy_(at::cat({reset, update, fresh}, -1));
    gates_h.select(0, *at).copy_(hidden);
    dh = out * z + at::matmul(hidden, in.w_hh) + (mask.defined() ? dh * (1 - mask) : at::zeros_like(dh));
  }
  RecurrentGradient result;
  finish(result, in, gates_x, gates_h, before);
  result.h = dh;
  return result;
}
}  // namespace air_sim
