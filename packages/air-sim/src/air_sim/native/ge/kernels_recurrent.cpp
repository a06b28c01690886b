// Layers of recurrent networks: one layer in one direction is one operator.
#include <air_sim/recurrent.h>

#include "kernels.h"

namespace air_sim::graph_engine {
namespace {
bool is_reversed(const Call& c) {
  const std::string direction = c.text("direction", "UNIDIRECTIONAL");
  TORCH_CHECK(direction == "UNIDIRECTIONAL" || direction == "REDIRECTIONAL", "the direction ", direction, " is not implemented by air-sim");
  return direction == "REDIRECTIONAL";
}
void check_gates(const Call& c, std::initializer_list<const char*> known, const char* otherwise) {
  const std::string order = c.text("gate_order", otherwise);
  for (const char* name : known)
    if (order == name) return;
  TORCH_CHECK(false, "the order of gates ", order, " is not implemented by air-sim");
}
void check_lstm(const Call& c) { check_gates(c, {"ifjo", "ifco"}, "ijfo"); }

// Over steps, whichever the operator is given: a cell of one step may leave them out.
Tensor by_steps(const Tensor& t) { return t.dim() == 2 ? t.unsqueeze(0) : t; }
Tensor state_of(const Tensor& state) { return state.reshape({-1, state.size(-1)}); }
// (steps, batch, hidden), the same for all of a sequence's numbers; anything smaller stands for none.
Tensor mask_of(const Call& c, size_t input) {
  return c.given(input) && c.in[input].dim() == 3 ? c.in[input].narrow(-1, 0, 1) : Tensor();
}
Tensor given_or_none(const Call& c, size_t input) { return c.given(input) ? c.in[input] : Tensor(); }

Tensors outputs_of(const LstmTrace& t) { return {t.y, t.h, t.c, t.i, t.j, t.f, t.o, t.tanhc}; }
// h, c and, after three gradients, i, j, f, o and tanhc follow each other from `first` on.
LstmTrace trace_of(const Tensors& x, size_t first) {
  return {Tensor(), by_steps(x[first]), by_steps(x[first + 1]), x[first + 5], x[first + 7], x[first + 6], x[first + 8], x[first + 9]};
}
RecurrentOutputGradient gradient_of(const Tensors& x, size_t first) { return {x[first], x[first + 1], x[first + 2]}; }

// The weights of both inputs in one matrix, features first.
RecurrentInput in_one_matrix(const Call& c, size_t state) {
  check_lstm(c);
  const auto& x = c.in;
  const int64_t features = x[0].size(-1);
  const Tensor w = x[1].t();
  return {x[0], w.narrow(1, 0, features), w.narrow(1, features, w.size(1) - features), given_or_none(c, 2), Tensor(),
          state_of(x[state]), state_of(x[state + 1]), Tensor(), is_reversed(c)};
}
RecurrentInput in_two_matrices(const Call& c, size_t bias, size_t state) {
  check_lstm(c);
  const auto& x = c.in;
  return {by_steps(x[0]), x[1].t(), x[2].t(), bias ? given_or_none(c, bias) : Tensor(), Tensor(), state_of(x[state]), state_of(x[state + 1]),
          Tensor(), is_reversed(c)};
}
RecurrentInput gated(const Call& c, bool has_bias, size_t state) {
  check_gates(c, {"rzh"}, "zrh");
  TORCH_CHECK(c.integer("reset_after", 1), "a reset before the product is not implemented by air-sim");
  const auto& x = c.in;
  return {x[0], x[1].t(), x[2].t(), has_bias ? given_or_none(c, 3) : Tensor(), has_bias ? given_or_none(c, 4) : Tensor(),
          state_of(x[state]), Tensor(), Tensor(), is_reversed(c)};
}

Tensors dynamic_rnn(const Call& c) {
  RecurrentInput in = in_one_matrix(c, 4);
  in.mask = mask_of(c, 3);
  return outputs_of(lstm_layer(in));
}
Tensors dynamic_rnn_grad(const Call& c) {
  RecurrentInput in = in_one_matrix(c, 4);
  in.mask = mask_of(c, 16);
  const RecurrentGradient made = lstm_layer_backward(in, trace_of(c.in, 6), gradient_of(c.in, 8));
  return {at::cat({made.w_ih, made.w_hh}, 1).t(), made.b_ih, made.x, made.h, made.c};
}
Tensors dynamic_rnn_v2(const Call& c) {
  RecurrentInput in = in_two_matrices(c, 3, 5);
  in.mask = mask_of(c, 4);
  return outputs_of(lstm_layer(in));
}
Tensors dynamic_rnn_v2_grad(const Call& c) {
  RecurrentInput in = in_two_matrices(c, 0, 4);
  in.mask = mask_of(c, 16);
  const RecurrentGradient made = lstm_layer_backward(in, trace_of(c.in, 6), gradient_of(c.in, 8));
  return {made.w_ih.t(), made.w_hh.t(), made.b_ih, made.x, made.h, made.c};
}
Tensors dynamic_gru_v2(const Call& c) {
  RecurrentInput in = gated(c, true, 6);
  in.mask = mask_of(c, 5);
  const GruTrace t = gru_layer(in);
  return {t.y, t.h, t.z, t.r, t.n, t.hn};
}
Tensors dynamic_gru_v2_grad(const Call& c) {
  const auto& x = c.in;
  RecurrentInput in = gated(c, false, 4);
  in.mask = mask_of(c, 12);
  const RecurrentGradient made = gru_layer_backward(in, {Tensor(), x[5], x[9], x[8], x[10], x[11]}, {x[6], x[7], Tensor()});
  return {made.w_ih.t(), made.w_hh.t(), made.b_ih, made.b_hh, made.x, made.h};
}
}  // namespace

void add_recurrent(Table& table) {
  table["DynamicRNN"] = dynamic_rnn;
  table["DynamicRNNGrad"] = dynamic_rnn_grad;
  table["DynamicRNNV2"] = dynamic_rnn_v2;
  table["DynamicRNNV2Grad"] = dynamic_rnn_v2_grad;
  table["DynamicGRUV2"] = dynamic_gru_v2;
  table["DynamicGRUV2Grad"] = dynamic_gru_v2_grad;
}
}  // namespace air_sim::graph_engine
