// One layer of a recurrent network in one direction, over all steps: forward with what its gradient needs, and backward.
// Weights and gates are in the order of torch: input, forget, cell, output; reset, update, new.
#pragma once
#include <ATen/core/Tensor.h>

namespace air_sim {
// What a layer reads.  `mask` (steps, batch, 1) is 0 where a sequence has ended; undefined where all are of one length.
struct RecurrentInput {
  at::Tensor x;                    // (steps, batch, features)
  at::Tensor w_ih, w_hh;           // (gates * hidden, features), (gates * hidden, hidden)
  at::Tensor b_ih, b_hh;           // undefined where there are none
  at::Tensor h, c;                 // (batch, hidden); c of an LSTM alone
  at::Tensor mask;
  bool reversed = false;           // from the last step to the first
};
// Of each step (steps, batch, hidden).  `h` and `c` stay as they are where a sequence has ended, and `y` is 0 there.
struct LstmTrace {
  at::Tensor y, h, c, i, f, j, o, tanhc;
};
struct GruTrace {
  at::Tensor y, h, r, z, n, hn;
};
// Of what a layer reads; `b_ih` and `b_hh` of an LSTM are the same.
struct RecurrentGradient {
  at::Tensor x, w_ih, w_hh, b_ih, b_hh, h, c;
};
// Gradients of what it gives: of `y`, and of the last states in the order of its steps.
struct RecurrentOutputGradient {
  at::Tensor y, h, c;
};

#define AIR_SIM_RECURRENT __attribute__((visibility("default")))
AIR_SIM_RECURRENT LstmTrace lstm_layer(const RecurrentInput& in);
AIR_SIM_RECURRENT RecurrentGradient lstm_layer_backward(const RecurrentInput& in, const LstmTrace& trace, const RecurrentOutputGradient& grad);
AIR_SIM_RECURRENT GruTrace gru_layer(const RecurrentInput& in);
AIR_SIM_RECURRENT RecurrentGradient gru_layer_backward(const RecurrentInput& in, const GruTrace& trace, const RecurrentOutputGradient& grad);
#undef AIR_SIM_RECURRENT
// The state after the last step in the order of the steps.
inline at::Tensor last_state(const at::Tensor& states, bool reversed) { return states.select(0, reversed ? 0 : states.size(0) - 1); }
}  // namespace air_sim
