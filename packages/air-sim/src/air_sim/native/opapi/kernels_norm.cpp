// Normalisation, gated activations and rotary positions in one step.
#include "fused.h"

namespace air_sim {
namespace {
void write_normed(Call& c, const Tensor& x, const char* out) {
  Normed n = rms_norm(x, c.tensor("gamma"), c.real("eps"));
  c.write(out, n.out);
  c.write("rstd", n.rstd);
}

Tensor sum_of(const Call& c) { return c.tensor("x1") + c.tensor("x2"); }

// The in-place form: the normalised value replaces x1 and the sum replaces x2.
void inplace_add_rms_norm(Call& c) {
  Tensor x = sum_of(c);
  Normed n = rms_norm(x, c.tensor("gamma"), c.real("eps"));
  c.write("x1", n.out);
  c.write("x2", x);
  c.write("rstd", n.rstd);
}

void rms_norm_backward(Call& c) {
  Tensor dy = c.tensor("dy").to(at::kFloat), x = c.tensor("x").to(at::kFloat), gamma = c.tensor("gamma").to(at::kFloat);
  std::vector<int64_t> normed, rest;
  int64_t first = x.dim() - gamma.dim();
  for (int64_t d = 0; d < x.dim(); ++d) (d < first ? rest : normed).push_back(d);
  Tensor rstd = c.tensor("rstd").to(at::kFloat);
  std::vector<int64_t> shape(x.sizes().begin(), x.sizes().begin() + first);
  shape.resize(x.dim(), 1);
  rstd = rstd.reshape(shape);
  Tensor hat = x * rstd, weighted = dy * gamma;
  c.write("dx", (weighted - hat * (weighted * hat).mean(normed, true)) * rstd);
  c.write("dgamma", rest.empty() ? dy * hat : (dy * hat).sum(rest));
}

void add_layer_norm(Call& c) {
  Tensor x = sum_of(c);
  if (c.has("bias")) x = x + c.tensor("bias");
  Tensor gamma = c.tensor("gamma");
  auto [y, mean, rstd] = at::native_layer_norm(x.to(at::kFloat), gamma.sizes(), gamma.to(at::kFloat), c.tensor("beta").to(at::kFloat), c.real("eps"));
  c.write("y", y);
  c.write("mean", mean);
  c.write("rstd", rstd);
  if (c.flag("additional")) c.write("x", x);
}

void deep_norm(Call& c) {
  Tensor x = c.tensor("x").to(at::kFloat) * c.real("alpha") + c.tensor("gx").to(at::kFloat), gamma = c.tensor("gamma");
  auto [y, mean, rstd] = at::native_layer_norm(x, gamma.sizes(), gamma.to(at::kFloat), c.tensor("beta").to(at::kFloat), c.real("eps"));
  c.write("y", y);
  c.write("mean", mean);
  c.write("rstd", rstd);
}

// ---------------------------------------------------------------- group normalisation followed by swish
void group_norm_swish(Call& c, double scale, bool activate) {
  Tensor x = c.tensor("x");
  int64_t batch = x.size(0), channels = x.size(1);
  auto [y, mean, rstd] = at::native_group_norm(x.contiguous(), c.optional("gamma"), c.optional("beta"), batch, channels,
                                               x.numel() / (batch * channels), c.integer("groups"), c.real("eps"));
  c.write("y", activate ? y * at::sigmoid(y * scale) : y);
  c.write("mean", mean);
  c.write("rstd", rstd);
}

// ---------------------------------------------------------------- gated activations
void swiglu(Call& c) {
  auto parts = c.tensor("x").to(at::kFloat).chunk(2, c.integer("dim"));
  c.write("out", at::silu(parts[0]) * parts[1]);
}
void swiglu_backward(Call& c) {
  Tensor grad = c.tensor("grad").to(at::kFloat);
  auto parts = c.tensor("x").to(at::kFloat).chunk(2, c.integer("dim"));
  c.write("out", at::cat({at::silu_backward(grad * parts[1], parts[0]), grad * at::silu(parts[0])}, c.integer("dim")));
}
void geglu(Call& c) {
  auto parts = c.tensor("x").to(at::kFloat).chunk(2, c.integer("dim"));
  bool left = c.flag("left");
  Tensor gelu = at::gelu(parts[left ? 0 : 1], approximation(c.integer("approximate")));
  c.write("out", gelu * parts[left ? 1 : 0]);
  c.write("gelu", gelu);
}
void geglu_backward(Call& c) {
  Tensor grad = c.tensor("grad").to(at::kFloat), gelu = c.tensor("gelu").to(at::kFloat);
  auto parts = c.tensor("x").to(at::kFloat).chunk(2, c.integer("dim"));
  bool left = c.flag("left");
  Tensor activated = at::gelu_backward(grad * parts[left ? 1 : 0], parts[left ? 0 : 1], approximation(c.integer("approximate")));
  Tensor linear = grad * gelu;
  c.write("out", left ? at::cat({activated, linear}, c.integer("dim")) : at::cat({linear, activated}, c.integer("dim")));
}
void gelu_mul(Call& c) {
  auto parts = c.tensor("x").to(at::kFloat).chunk(2, -1);
  c.write("out", at::gelu(parts[0], c.text("approximate")) * parts[1]);
}
Tensor fast_gelu(const Tensor& x) {
  Tensor wide = x.to(at::kFloat);
  return wide / (1 + (wide * -1.702).exp());
}
void fast_gelu_backward(Call& c) {
  Tensor x = c.tensor("x").to(at::kFloat), s = at::sigmoid(x * 1.702);
  c.write("out", c.tensor("grad").to(at::kFloat) * (s + x * 1.702 * s * (1 - s)));
}
void clipped_swiglu(Call& c) {
  TORCH_CHECK(!c.has("groups"), "group_index of npu_clipped_swiglu is not implemented by air-sim");
  Tensor x = c.tensor("x").to(at::kFloat), gate, linear;
  int64_t dim = c.integer("dim");
  if (c.flag("interleaved")) {
    gate = x.slice(dim, 0, std::nullopt, 2);
    linear = x.slice(dim, 1, std::nullopt, 2);
  } else {
    auto parts = x.chunk(2, dim);
    gate = parts[0];
    linear = parts[1];
  }
  double limit = c.real("limit");
  gate = gate.clamp_max(limit);
  c.write("out", gate * at::sigmoid(gate * c.real("alpha")) * (linear.clamp(-limit, limit) + c.real("bias")));
}

Tensor activated(const Tensor& x, const std::string& name) {
  if (name == "relu") return at::relu(x);
  if (name == "gelu") return at::gelu(x);
  if (name == "silu") return at::silu(x);
  TORCH_CHECK(name == "fastgelu", "the activation ", name, " of npu_ffn is not implemented by air-sim");
  return fast_gelu(x);
}
// Two linear layers, for all tokens by one expert.
void feed_forward(Call& c) {
  for (const char* other : {"scale", "offset", "deq_scale1", "deq_scale2", "antiquant_scale1", "antiquant_scale2", "antiquant_offset1", "antiquant_offset2"})
    TORCH_CHECK(!c.has(other), other, " of npu_ffn is not implemented by air-sim");
  TORCH_CHECK(c.ints("experts").empty(), "several experts of npu_ffn are not implemented by air-sim");
  const auto wide = [&](const char* name) { return c.tensor(name).to(at::kFloat); };
  Tensor x = at::matmul(wide("x"), wide("weight1"));
  x = activated(c.has("bias1") ? x + wide("bias1") : x, c.text("activation"));
  x = at::matmul(x, wide("weight2"));
  c.write("out", c.has("bias2") ? x + wide("bias2") : x);
}

// ---------------------------------------------------------------- rotary positions
void rotary(Call& c) { c.write("out", rotate(c.tensor("x"), c.tensor("cos"), c.tensor("sin"), static_cast<Rotary>(c.integer("mode")))); }
void rotary_by_matrix(Call& c) {
  Tensor x = c.tensor("x").to(at::kFloat);
  if (!c.has("matrix")) return rotary(c);
  c.write("out", x * c.tensor("cos").to(at::kFloat) + at::matmul(x, c.tensor("matrix").to(at::kFloat)) * c.tensor("sin").to(at::kFloat));
}
// The turn is orthogonal and its transpose is its negative.
void rotary_backward(Call& c) {
  Tensor dy = c.tensor("dy").to(at::kFloat), cos = c.tensor("cos").to(at::kFloat), sin = c.tensor("sin").to(at::kFloat);
  auto mode = static_cast<Rotary>(c.integer("mode"));
  c.write("dx", dy * cos - turn(dy * sin, mode));
  if (!c.has("x")) return;
  Tensor x = c.tensor("x").to(at::kFloat);
  c.write("dcos", at::sum_to(dy * x, cos.sizes()));
  c.write("dsin", at::sum_to(dy * turn(x, mode), sin.sizes()));
}
Tensor rotate_front(const Tensor& x, const Tensor& cos, const Tensor& sin, Rotary mode) {
  int64_t width = cos.size(-1);
  if (width == x.size(-1)) return rotate(x, cos, sin, mode);
  return at::cat({rotate(x.narrow(-1, 0, width), cos, sin, mode), x.narrow(-1, width, x.size(-1) - width)}, -1);
}
void apply_rotary(Call& c, Rotary mode) {
  Tensor cos = c.tensor("cos"), sin = c.tensor("sin");
  for (const char* name : {"query", "key"}) c.write(name, rotate_front(c.tensor(name), cos, sin, mode));
}
Rotary rotary_named(const std::string& name) {
  if (name == "half" || name.empty()) return Rotary::kHalf;
  if (name == "interleave") return Rotary::kInterleave;
  TORCH_CHECK(name == "quarter", "the rotary mode ", name, " is unknown");
  return Rotary::kQuarter;
}

const Family norms({
    {"RmsNorm(T x, T gamma, d eps, T! y, T! rstd)", [](Call& c) { write_normed(c, c.tensor("x"), "y"); }},
    {"GemmaRmsNorm(T x, T gamma, d eps, T! y, T! rstd)",
     [](Call& c) {
       const Normed n = rms_norm(c.tensor("x"), c.tensor("gamma").to(at::kFloat) + 1, c.real("eps"));
       c.write("y", n.out);
       c.write("rstd", n.rstd);
     }},
    {"RmsNormGrad(T dy, T x, T rstd, T gamma, T! dx, T! dgamma)", rms_norm_backward},
    {"AddRmsNorm(T x1, T x2, T gamma, d eps, T! y, T! rstd, T! x)",
     [](Call& c) {
       Tensor x = sum_of(c);
       write_normed(c, x, "y");
       c.write("x", x);
     }},
    {"AddRmsNormCast(T x1, T x2, T gamma, d eps, T! wide, T! y, T! rstd, T! x)",
     [](Call& c) {
       Tensor x = sum_of(c);
       Normed n = rms_norm(x, c.tensor("gamma"), c.real("eps"));
       c.write("wide", n.out);
       c.write("y", n.out);
       c.write("rstd", n.rstd);
       c.write("x", x);
     }},
    {"InplaceAddRmsNorm(T! x1, T! x2, T gamma, d eps, T! rstd)", inplace_add_rms_norm},
    {"AddLayerNorm(T x1, T x2, T gamma, T beta, T? bias, d eps, b additional, T! y, T! mean, T! rstd, T! x)", add_layer_norm},
    {"DeepNorm(T x, T gx, T beta, T gamma, d alpha, d eps, T! mean, T! rstd, T! y)", deep_norm},
    {"GroupNormSilu(T x, T? gamma, T? beta, i groups, d eps, T! y, T! mean, T! rstd)", [](Call& c) { group_norm_swish(c, 1, true); }},
    {"GroupNormSwish(T x, T? gamma, T? beta, i groups, s format, d eps, b activate, d scale, T! y, T! mean, T! rstd)",
     [](Call& c) { group_norm_swish(c, c.real("scale"), c.flag("activate")); }},
});

const Family activations({
    {"SwiGlu(T x, i dim, T! out)", swiglu},
    {"SwiGluGrad(T grad, T x, i dim, T! out)", swiglu_backward},
    {"GeGluV3(T x, i dim, i approximate, b left, T! out, T! gelu)", geglu},
    {"GeGluV3Backward(T grad, T x, T gelu, i dim, i approximate, b left, T! out)", geglu_backward},
    {"FFNV2(T x, T weight1, T weight2, I? experts, T? bias1, T? bias2, T? scale, T? offset, T? deq_scale1, T? deq_scale2, T? antiquant_scale1, "
     "T? antiquant_scale2, T? antiquant_offset1, T? antiquant_offset2, s activation, i inner_precise, b token_index, T! out)",
     feed_forward},
    {"GeluMul(T x, s approximate, T! out)", gelu_mul},
    {"FastGelu(T x, T! out)", [](Call& c) { c.write("out", fast_gelu(c.tensor("x"))); }},
    {"FastGeluBackward(T grad, T x, T! out)", fast_gelu_backward},
    {"ClippedSwiglu(T x, T? groups, i dim, d alpha, d limit, d bias, b interleaved, T! out)", clipped_swiglu},
});

const Family rotary_positions({
    {"RotaryPositionEmbedding(T x, T cos, T sin, i mode, T! out)", rotary},
    {"RotaryPositionEmbeddingV2(T x, T cos, T sin, i mode, T? matrix, T! out)", rotary_by_matrix},
    {"RotaryPositionEmbeddingGrad(T dy, T cos, T sin, T? x, i mode, T! dx, T! dcos, T! dsin)", rotary_backward},
    {"ApplyRotaryPosEmb(T! query, T! key, T cos, T sin, i layout)", [](Call& c) { apply_rotary(c, Rotary::kHalf); }},
    {"ApplyRotaryPosEmbV2(T! query, T! key, T cos, T sin, i layout, s mode)", [](Call& c) { apply_rotary(c, rotary_named(c.text("mode"))); }},
    {"InterleaveRope(T x, T cos, T sin, T! out)",
     [](Call& c) { c.write("out", rotate(c.tensor("x"), c.tensor("cos"), c.tensor("sin"), Rotary::kInterleaveHalf)); }},
});
}  // namespace
}  // namespace air_sim
