// Recurrent networks of several layers and two directions.  Dropout between layers is what CANN's documents say of it: the
// functions take the number and do nothing with it.
#include <air_sim/recurrent.h>

#include "kernels.h"

namespace air_sim {
namespace {
// How the parameters of a call are laid out.
struct Stack {
  int64_t layers, directions, each;  // `each`: parameters of a layer in one direction
  bool batch_first;
  Tensor mask;
  std::vector<int64_t> sizes;        // steps, batch
  explicit Stack(const Call& c)
      : layers(c.integer("layers")),
        directions(c.flag("bidirectional") ? 2 : 1),
        each(c.flag("bias") ? 4 : 2),
        batch_first(c.flag("batch_first")) {
    const Tensor x = c.tensor("input");
    const bool packed = c.has("batch_sizes") && c.tensor("batch_sizes").numel() > 0;
    if (!packed) {
      sizes = {x.size(batch_first ? 1 : 0), x.size(batch_first ? 0 : 1)};
      return;
    }
    const Tensor alive = c.tensor("batch_sizes").to(at::kLong);
    sizes = {alive.size(0), x.size(0) / alive.size(0)};  // torch_npu packs sequences with their padding
    mask = at::arange(sizes[1], at::kLong).unsqueeze(0).lt(alive.unsqueeze(1)).unsqueeze(-1);
  }
  Tensor by_steps(const Tensor& x) const {
    if (x.dim() == 2) return x.reshape({sizes[0], sizes[1], x.size(1)});
    return batch_first ? x.transpose(0, 1) : x;
  }
  Tensor as_given(const Tensor& x, const Tensor& like) const {
    if (like.dim() == 2) return x.reshape(like.sizes());
    return batch_first ? x.transpose(0, 1) : x;
  }
  RecurrentInput part(int64_t layer, int64_t direction, const Tensor& x, const std::vector<Tensor>& params, const Tensor& h, const Tensor& c) const {
    const int64_t number = layer * directions + direction;
    const Tensor* mine = &params.at(number * each);
    const Tensor none;
    return {x,   mine[0], mine[1], each == 4 ? mine[2] : none, each == 4 ? mine[3] : none, h.select(0, number), c.defined() ? c.select(0, number) : none,
            mask, direction == 1};
  }
};

using Columns = std::vector<std::vector<Tensor>>;
// Lists of the caller, where it wants them.
void write_columns(const Call& c, std::initializer_list<const char*> names, const Columns& columns) {
  size_t column = 0;
  for (const char* name : names) {
    const std::vector<Tensor> wanted = c.tensors(name);
    for (size_t k = 0; k < wanted.size() && c.flag("train"); ++k) wanted[k].copy_(columns[column][k].reshape(wanted[k].sizes()));
    ++column;
  }
}

void lstm(Call& c) {
  const Stack stack(c);
  const auto params = c.tensors("params"), first = c.tensors("hx");
  Tensor x = stack.by_steps(c.tensor("input"));
  std::vector<Tensor> h, cell;
  Columns kept(7);
  for (int64_t layer = 0; layer < stack.layers; ++layer) {
    std::vector<Tensor> out;
    for (int64_t direction = 0; direction < stack.directions; ++direction) {
      const LstmTrace t = lstm_layer(stack.part(layer, direction, x, params, first.at(0), first.at(1)));
      out.push_back(t.y);
      h.push_back(last_state(t.h, direction == 1));
      cell.push_back(last_state(t.c, direction == 1));
      const Tensor all[] = {t.i, t.j, t.f, t.o, t.h, t.c, t.tanhc};
      for (size_t k = 0; k < kept.size(); ++k) kept[k].push_back(all[k]);
    }
    x = at::cat(out, -1);
  }
  c.write("out", stack.as_given(x, c.tensor("out")));
  c.write("hy", at::stack(h));
  c.write("cy", at::stack(cell));
  write_columns(c, {"i", "j", "f", "o", "h", "c", "tanhc"}, kept);
}

void gru(Call& c) {
  const Stack stack(c);
  const auto params = c.tensors("params");
  const Tensor first = c.tensor("hx");
  Tensor x = stack.by_steps(c.tensor("input"));
  std::vector<Tensor> h;
  Columns kept(5);
  for (int64_t layer = 0; layer < stack.layers; ++layer) {
    std::vector<Tensor> out;
    for (int64_t direction = 0; direction < stack.directions; ++direction) {
      const GruTrace t = gru_layer(stack.part(layer, direction, x, params, first, Tensor()));
      out.push_back(t.y);
      h.push_back(last_state(t.h, direction == 1));
      const Tensor all[] = {t.r, t.z, t.n, t.hn, t.h};
      for (size_t k = 0; k < kept.size(); ++k) kept[k].push_back(all[k]);
    }
    x = at::cat(out, -1);
  }
  c.write("out", stack.as_given(x, c.tensor("out")));
  c.write("hy", at::stack(h));
  write_columns(c, {"r", "z", "n", "hn", "h"}, kept);
}

// Goes through the layers backwards.  `layer_of(part, number, gradients of its output)` gives the gradients of one layer in one
// direction; `y_of(number)` is what that one gave.
template <class LayerOf, class OutputOf>
void backward(Call& c, const Stack& stack, const Tensor& h, const Tensor& cell, const LayerOf& layer_of, const OutputOf& y_of) {
  const auto params = c.tensors("params"), wanted = c.tensors("grad_params");
  const Tensor input = c.tensor("input");
  Tensor dy = c.has("grad_y") ? stack.by_steps(c.tensor("grad_y")).to(at::kFloat) : Tensor();
  std::vector<Tensor> dh(stack.layers * stack.directions), dc(dh.size());
  for (int64_t layer = stack.layers - 1; layer >= 0; --layer) {
    std::vector<Tensor> below;
    for (int64_t direction = 0; layer > 0 && direction < stack.directions; ++direction) below.push_back(y_of((layer - 1) * stack.directions + direction));
    const Tensor x = layer > 0 ? at::cat(below, -1) : stack.by_steps(input);
    Tensor dx;
    for (int64_t direction = 0; direction < stack.directions; ++direction) {
      const int64_t number = layer * stack.directions + direction, hidden = h.size(-1);
      const RecurrentGradient made =
          layer_of(stack.part(layer, direction, x, params, h, cell), number, dy.defined() ? dy.narrow(-1, direction * hidden, hidden) : dy);
      dx = dx.defined() ? dx + made.x : made.x;
      dh[number] = made.h;
      dc[number] = made.c;
      const Tensor all[] = {made.w_ih, made.w_hh, made.b_ih, made.b_hh};
      for (int64_t k = 0; k < stack.each; ++k) wanted.at(number * stack.each + k).copy_(all[k]);
    }
    dy = dx;
  }
  c.write("grad_input", stack.as_given(dy, input));
  c.write("grad_h", at::stack(dh));
  if (cell.defined()) c.write("grad_c", at::stack(dc));
}
Tensor number_of(const Tensor& all, int64_t number) { return all.defined() ? all.select(0, number) : all; }
Tensor optional_of(const Call& c, const char* name) { return c.has(name) ? c.tensor(name) : Tensor(); }
Tensor without_ended(const Tensor& h, const Tensor& mask) { return mask.defined() ? h * mask : h; }

void lstm_backward(Call& c) {
  const Stack stack(c);
  const auto first = c.tensors("hx");
  const auto i = c.tensors("i"), j = c.tensors("j"), f = c.tensors("f"), o = c.tensors("o"), h = c.tensors("h"), cell = c.tensors("c"), tanhc = c.tensors("tanhc");
  const Tensor dh = optional_of(c, "grad_hy"), dc = optional_of(c, "grad_cy");
  backward(
      c, stack, first.at(0), first.at(1),
      [&](const RecurrentInput& in, int64_t k, const Tensor& dy) {
        return lstm_layer_backward(in, {Tensor(), h[k], cell[k], i[k], f[k], j[k], o[k], tanhc[k]}, {dy, number_of(dh, k), number_of(dc, k)});
      },
      [&](int64_t k) { return without_ended(h[k], stack.mask); });
}

void gru_backward(Call& c) {
  const Stack stack(c);
  const auto r = c.tensors("r"), z = c.tensors("z"), n = c.tensors("n"), hn = c.tensors("hn"), h = c.tensors("h");
  const Tensor dh = optional_of(c, "grad_hy");
  backward(
      c, stack, c.tensor("hx"), Tensor(),
      [&](const RecurrentInput& in, int64_t k, const Tensor& dy) {
        return gru_layer_backward(in, {Tensor(), h[k], r[k], z[k], n[k], hn[k]}, {dy, number_of(dh, k), Tensor()});
      },
      [&](int64_t k) { return without_ended(h[k], stack.mask); });
}

// One step of an LSTM, its products with the weights already made.
void lstm_cell(Call& c) {
  Tensor gates = c.tensor("input_gates").to(at::kFloat) + c.tensor("hidden_gates").to(at::kFloat);
  for (const char* bias : {"input_bias", "hidden_bias"})
    if (c.has(bias)) gates = gates + c.tensor(bias).to(at::kFloat);
  const auto parts = gates.chunk(4, -1);
  const Tensor i = parts[0].sigmoid(), f = parts[1].sigmoid(), j = parts[2].tanh(), o = parts[3].sigmoid();
  const Tensor cell = f * c.tensor("cx").to(at::kFloat) + i * j;
  c.write("hy", o * cell.tanh());
  c.write("cy", cell);
  c.write("storage", at::cat({i, f, j, o}, -1));
}
void lstm_cell_backward(Call& c) {
  const auto parts = c.tensor("storage").to(at::kFloat).chunk(4, -1);
  const Tensor i = parts[0], f = parts[1], j = parts[2], o = parts[3], cx = c.tensor("cx").to(at::kFloat), tanhc = c.tensor("cy").to(at::kFloat).tanh();
  const Tensor dh = c.has("grad_hy") ? c.tensor("grad_hy").to(at::kFloat) : at::zeros_like(cx);
  Tensor dc = dh * o * (1 - tanhc * tanhc);
  if (c.has("grad_cy")) dc = dc + c.tensor("grad_cy").to(at::kFloat);
  const Tensor gates = at::cat({dc * j * i * (1 - i), dc * cx * f * (1 - f), dc * i * (1 - j * j), dh * tanhc * o * (1 - o)}, -1);
  c.write("grad_gates", gates);
  c.write("grad_cx", dc * f);
  if (c.flag("bias")) c.write("grad_bias", gates.sum(0));
}

#define STACK "T? batch_sizes, b bias, i layers, d dropout, b train, b bidirectional, b batch_first, "
const Family recurrent({
    {"LSTM(T input, L params, L hx, " STACK "T! out, T! hy, T! cy, L! i, L! j, L! f, L! o, L! h, L! c, L! tanhc)", lstm},
    {"LstmBackward(T input, L hx, L params, T? grad_y, T? grad_hy, T? grad_cy, L i, L j, L f, L o, L h, L c, L tanhc, " STACK
     "p mask, T! grad_input, T! grad_h, T! grad_c, L! grad_params)",
     lstm_backward},
    {"GRU(T input, L params, T hx, " STACK "T! out, T! hy, L! r, L! z, L! n, L! hn, L! h)", gru},
    {"GRUBackward(T input, L params, T hx, T grad_y, T grad_hy, L r, L z, L n, L hn, L h, T? batch_sizes, b bias, i layers, "
     "b bidirectional, b batch_first, T! grad_input, T! grad_h, L! grad_params)",
     gru_backward},
    {"ThnnFusedLstmCell(T input_gates, T hidden_gates, T cx, T? input_bias, T? hidden_bias, T! hy, T! cy, T! storage)", lstm_cell},
    {"ThnnFusedLstmCellBackward(T? grad_hy, T? grad_cy, T cx, T cy, T storage, b bias, T! grad_gates, T! grad_cx, T! grad_bias)",
     lstm_cell_backward},
});
#undef STACK
}  // namespace
}  // namespace air_sim
