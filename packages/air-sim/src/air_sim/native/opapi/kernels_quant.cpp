// Quantisation, and matrix products of quantised values.
#include "fused.h"

namespace air_sim {
namespace {
at::ScalarType type_of_output(const Call& c, const char* name) { return c.tensor(name).scalar_type(); }

// A one-dimensional scale lies along one axis of x.
Tensor along(const Tensor& scale, const Tensor& x, int64_t axis) {
  if (scale.dim() != 1 || scale.numel() == 1) return scale.to(at::kFloat);
  std::vector<int64_t> shape(x.dim(), 1);
  shape[axis < 0 ? axis + x.dim() : axis] = scale.numel();
  return scale.to(at::kFloat).view(shape);
}
Tensor optional_along(const Call& c, const char* name, const Tensor& x, int64_t axis) {
  return c.has(name) ? along(c.tensor(name), x, axis) : at::zeros({}, at::kFloat);
}

// y = round(x * scale + offset), the scale squared in sqrt mode.
void multiply_and_round(Call& c, int64_t axis) {
  Tensor x = c.tensor("x").to(at::kFloat), scale = along(c.tensor("scale"), x, axis);
  if (c.flag("sqrt")) scale = scale * scale;
  TORCH_CHECK(c.text("round") == "round", "the rounding mode ", c.text("round"), " is not implemented by air-sim");
  c.write("y", narrow_like(x * scale + optional_along(c, "offset", x, axis), c.tensor("y")));
}
void divide_and_round(Call& c) {
  Tensor x = c.tensor("x").to(at::kFloat);
  int64_t axis = c.integer("axis");
  c.write("y", narrow_to(x / along(c.tensor("scale"), x, axis) + optional_along(c, "offset", x, axis), type_of_output(c, "y")));
}
void anti_quant(Call& c) {
  Tensor x = operand(c.tensor("x")).to(at::kFloat), scale = c.tensor("scale").to(at::kFloat);
  if (c.flag("sqrt")) scale = scale * scale;
  if (c.has("offset")) x = x + c.tensor("offset").to(at::kFloat);
  c.write("out", x * scale);
}

// ---------------------------------------------------------------- scales found in the values
// The smooth scales of group i apply to the rows before group_index[i]; where columns share a scale, there is one per row.
Tensor smoothed(const Call& c, const std::string& mode = "pertoken") {
  Tensor x = c.tensor("x").to(at::kFloat);
  if (!c.has("smooth")) return x;
  Tensor smooth = c.tensor("smooth").to(at::kFloat);
  if (mode == "perchannel") return x * smooth.unsqueeze(-1);
  bool grouped = false;
  for (const auto& p : c.definition.parameters) grouped = grouped || (p.name == "groups" && c.has("groups"));
  if (!grouped) return x * smooth;
  Tensor rows = x.reshape({-1, x.size(-1)}), ends = c.tensor("groups").to(at::kLong);
  Tensor group = at::searchsorted(ends, at::arange(rows.size(0), at::kLong), false, true).clamp_max(smooth.size(0) - 1);
  return (rows * smooth.index_select(0, group)).view(x.sizes());
}

Quantised quantise_asymmetric(const Tensor& x, at::ScalarType type) {
  double top = largest(type);
  Tensor high = x.amax(-1, true), low = x.amin(-1, true), scale = (high - low) / (2 * top + 1);
  Tensor safe = scale.masked_fill(scale == 0, 1), offset = top - high / safe, values = x / safe + offset;
  return {type == at::kInt ? packed(values) : narrow_to(values, type), scale.squeeze(-1), offset.squeeze(-1)};
}

void write_quantised(const Call& c, Tensor x, bool symmetric) {
  Quantised q = symmetric ? quantise_rows(x, type_of_output(c, "y")) : quantise_asymmetric(x, type_of_output(c, "y"));
  c.write("y", q.values);
  c.write("scale", q.scale);
  if (q.offset.defined()) c.write("offset", q.offset);
}
void dynamic_quant(Call& c) { write_quantised(c, smoothed(c), true); }
void dynamic_quant_two(Call& c) { write_quantised(c, smoothed(c), !c.has("offset")); }
void dynamic_quant_by_mode(Call& c) {
  std::string mode = c.text("mode");
  Tensor x = smoothed(c, mode);
  if (mode == "pertensor") x = x.reshape({1, -1});
  if (mode == "perchannel") x = x.transpose(-1, -2);
  bool symmetric = c.flag("symmetric");
  at::ScalarType type = type_of_output(c, "y");
  TORCH_CHECK(type != at::kInt || mode != "perchannel", "columns of four bits are not implemented by air-sim");
  Quantised q = symmetric ? quantise_rows(x, type) : quantise_asymmetric(x, type);
  Tensor values = mode == "perchannel" ? q.values.transpose(-1, -2) : q.values;
  c.write("y", values.reshape(c.tensor("y").sizes()));
  c.write("scale", q.scale);
  if (!symmetric) c.write("offset", q.offset);
}

// ---------------------------------------------------------------- normalise, then quantise
Tensor added_and_normed(Call& c) {
  Tensor x = c.tensor("x1") + c.tensor("x2");
  c.write("x", x);
  Tensor y = rms_norm(x.to(at::kFloat), c.tensor("gamma"), c.real("eps")).out;
  for (const auto& p : c.definition.parameters)
    if (p.name == "beta" && c.has("beta")) y = y + c.tensor("beta").to(at::kFloat);
  return y;
}
void write_static(Call& c, const Tensor& y, const char* scale, const char* offset, const char* out) {
  if (!c.has(scale) || !c.has(out)) return;
  Tensor s = c.tensor(scale).to(at::kFloat), scaled = c.flag("divide") ? y / s : y * s;
  if (c.has(offset)) scaled = scaled + c.tensor(offset).to(at::kFloat);
  c.write(out, narrow_like(scaled, c.tensor(out)));
}
void add_rms_norm_quant(Call& c) {
  Tensor y = added_and_normed(c);
  write_static(c, y, "scales1", "offset1", "y1");
  write_static(c, y, "scales2", "offset2", "y2");
  for (const auto& p : c.definition.parameters)
    if (p.name == "normed") c.write("normed", y);
}
void add_rms_norm_dynamic_quant(Call& c) {
  Tensor y = added_and_normed(c);
  auto one = [&](const char* smooth, const char* out, const char* scale) {
    Quantised q = quantise_rows(c.has(smooth) ? y * c.tensor(smooth).to(at::kFloat) : y, type_of_output(c, out));
    c.write(out, q.values);
    c.write(scale, q.scale);
  };
  const std::vector<bool> mask = c.knows("mask") ? c.bools("mask") : std::vector<bool>();
  const bool second = c.has("smooth1") && c.has("smooth2");
  if (mask.empty() || mask[0]) one("smooth1", "y1", "scale1");
  if (mask.empty() ? second : mask[1]) one("smooth2", "y2", "scale2");
}
void rms_norm_quant(Call& c) {
  Tensor y = rms_norm(c.tensor("x").to(at::kFloat), c.tensor("gamma"), c.real("eps")).out;
  if (c.has("beta")) y = y + c.tensor("beta").to(at::kFloat);
  c.write("y", narrow_to(y * c.tensor("quant_scale").to(at::kFloat) + (c.has("offset") ? c.tensor("offset").to(at::kFloat) : at::zeros({}, at::kFloat)),
                         type_of_output(c, "y")));
}

// ---------------------------------------------------------------- parameters packed into 64 bits
// The scale as a float of 19 bits, its use flagged in bit 46, a 9 bit offset in bits 37 to 45.
void trans_quant_param(Call& c) {
  Tensor scale = c.tensor("scale").to(at::kFloat).contiguous().reshape({-1});
  Tensor bits = scale.view(at::kInt).to(at::kLong).bitwise_and(0xFFFFE000LL).bitwise_or(1LL << 46);
  if (c.has("offset")) {
    Tensor nine = c.tensor("offset").to(at::kFloat).round().clamp(-256, 255).to(at::kLong).reshape({-1}).bitwise_and(0x1FF);
    bits = bits.bitwise_or(at::bitwise_left_shift(nine, 37));
  }
  c.write("out", bits.reshape(c.tensor("out").sizes()).to(c.tensor("out").scalar_type()));
}

// ---------------------------------------------------------------- products
Tensor product(const Tensor& a, const Tensor& b) {
  // int8 products add up exactly in double.
  return at::matmul(a.to(at::kDouble), b.to(at::kDouble));
}
// Absent inputs come as null or as empty tensors.
bool filled(const Call& c, const char* name) { return c.has(name) && c.tensor(name).numel() > 0; }
void quant_matmul(Call& c) {
  for (const char* name : {"y_scale", "y_offset", "x1_offset"})
    TORCH_CHECK(!filled(c, name), "the input ", name, " is not implemented by air-sim");
  Tensor x1 = c.tensor("x1"), x2 = c.tensor("x2");
  if (c.flag("transpose1")) x1 = x1.transpose(-1, -2);
  if (c.flag("transpose2")) x2 = x2.transpose(-1, -2);
  x1 = operand(x1);
  x2 = operand(x2, x1.size(-1));
  Tensor sum = product(x1, x2), bias = filled(c, "bias") ? c.tensor("bias") : Tensor();
  bool integer_bias = bias.defined() && bias.scalar_type() == at::kInt;
  if (integer_bias) sum = sum + bias.unsqueeze(-2);
  sum = sum * plain_scale(c.tensor("x2_scale"));
  if (filled(c, "x1_scale")) {
    Tensor rows = c.tensor("x1_scale").to(at::kFloat);
    sum = sum * (rows.dim() == 1 && rows.numel() > 1 ? rows.unsqueeze(-1) : rows);
  }
  if (bias.defined() && !integer_bias) sum = sum + bias.to(at::kDouble);
  if (filled(c, "x2_offset")) sum = sum + c.tensor("x2_offset").to(at::kDouble);
  c.write("out", narrow_to(sum, type_of_output(c, "out")));
}

// One scale per column, for all, or per group of `size` rows of the weight.
Tensor spread_over_groups(const Tensor& scale, const Tensor& weight, int64_t size) {
  if (size <= 0 || scale.dim() != 2 || scale.size(0) <= 1) return scale.to(at::kFloat);
  return scale.to(at::kFloat).repeat_interleave(size, 0).narrow(0, 0, weight.size(0));
}
void weight_quant_matmul(Call& c) {
  Tensor x = c.tensor("x").to(at::kFloat), weight = operand(c.tensor("weight"), x.size(-1)).to(at::kFloat);
  int64_t size = c.integer("group_size");
  if (c.has("antiquant_offset")) weight = weight + spread_over_groups(c.tensor("antiquant_offset"), weight, size);
  Tensor out = at::matmul(x, weight * spread_over_groups(c.tensor("antiquant_scale"), weight, size));
  if (c.has("bias")) out = out + c.tensor("bias").to(at::kFloat);
  if (c.has("quant_scale")) {
    out = out * plain_scale(c.tensor("quant_scale"));
    if (c.has("quant_offset")) out = out + c.tensor("quant_offset").to(at::kFloat);
  }
  c.write("out", narrow_to(out, type_of_output(c, "out")));
}
void dequant_bias(Call& c) {
  Tensor x = c.tensor("x").to(at::kFloat), bias = c.tensor("bias");
  bool integer_bias = bias.defined() && bias.scalar_type() == at::kInt;
  if (integer_bias) x = x + bias.to(at::kFloat);
  x = x * c.tensor("weight_scale").to(at::kFloat);
  if (c.has("activation_scale")) x = x * c.tensor("activation_scale").to(at::kFloat).unsqueeze(-1);
  if (bias.defined() && !integer_bias) x = x + bias.to(at::kFloat);
  c.write("out", x);
}

// Permutes both operands, multiplies batch by batch, permutes the result; a split factor deals the batches out.
void transpose_batch_matmul(Call& c) {
  auto permuted = [](const Tensor& x, const std::vector<int64_t>& order) { return order.empty() ? x : x.permute(order); };
  Tensor out = at::matmul(permuted(c.tensor("x").to(at::kFloat), c.ints("perm_x1")), permuted(c.tensor("weight").to(at::kFloat), c.ints("perm_x2")));
  if (c.has("bias")) out = out + c.tensor("bias").to(at::kFloat);
  out = permuted(out, c.ints("perm_y"));
  if (c.has("scale")) out = out.flatten(1) * plain_scale(c.tensor("scale"));
  Tensor target = c.tensor("out");
  int64_t split = c.integer("split");
  if (split > 1) out = out.reshape({out.size(0), split, -1}).transpose(0, 1);
  c.write("out", narrow_to(out.reshape(target.sizes()), target.scalar_type()));
}

#define QUANT_MATMUL                                                                                          \
  "(T x1, T x2, T? x1_scale, T x2_scale, T? y_scale, T? x1_offset, T? x2_offset, T? y_offset, T? bias, "      \
  "b transpose1, b transpose2, i group_size, T! out)"
#define WEIGHT_QUANT "(T x, T weight, T antiquant_scale, T? antiquant_offset, T? quant_scale, T? quant_offset, T? bias, h group_size, "
#define TRANSPOSED "(T x, T weight, T? bias, T? scale, I? perm_x1, I? perm_x2, I? perm_y, c cube, i split, T! out)"
#define ADD_NORM_QUANT "(T x1, T x2, T gamma, T scales1, T? scales2, T? offset1, T? offset2, "

const Family quantisation({
    {"AscendQuant(T x, T scale, T? offset, b sqrt, s round, D type, T! y)", [](Call& c) { multiply_and_round(c, -1); }},
    {"AscendQuantV3(T x, T scale, T? offset, b sqrt, s round, D type, i axis, T! y)", [](Call& c) { multiply_and_round(c, c.integer("axis")); }},
    {"AscendAntiQuant(T x, T scale, T? offset, D type, b sqrt, T! out)", anti_quant},
    {"Quantize(T x, T scale, T? offset, D type, i axis, T! y)", divide_and_round},
    {"DynamicQuant(T x, T? smooth, T! y, T! scale)", dynamic_quant},
    {"DynamicQuantV2(T x, T? smooth, T? groups, h type, T! y, T! scale, T! offset)", dynamic_quant_two},
    {"DynamicQuantV3(T x, T? smooth, T? groups, h type, b symmetric, s mode, T! y, T! scale, T! offset)", dynamic_quant_by_mode},
    {"DynamicQuantV4(T x, T? smooth, T? groups, h type, b symmetric, s mode, f type_max, T! y, T! scale, T! offset)", dynamic_quant_by_mode},
    {"AddRmsNormQuant" ADD_NORM_QUANT "i axis, d eps, b divide, T! y1, T! y2, T! x)", add_rms_norm_quant},
    {"AddRmsNormQuantV2" ADD_NORM_QUANT "T? beta, i axis, d eps, b divide, T! y1, T! y2, T! x, T! normed)", add_rms_norm_quant},
    {"AddRmsNormDynamicQuantV2(T x1, T x2, T gamma, T? smooth1, T? smooth2, T? beta, d eps, B? mask, T! y1, T! y2, T! x, T! scale1, T! scale2)",
     add_rms_norm_dynamic_quant},
    {"RmsNormQuant(T x, T gamma, T? beta, T quant_scale, T? offset, d eps, T! y)", rms_norm_quant},
    {"TransQuantParamV2(T scale, T? offset, T! out)", trans_quant_param},
    {"TransQuantParamV3(T scale, T? offset, i round, T! out)", trans_quant_param},
    {"QuantMatmulV5" QUANT_MATMUL, quant_matmul},
    {"QuantMatmulWeightNz" QUANT_MATMUL, quant_matmul},
    {"WeightQuantBatchMatmulV2" WEIGHT_QUANT "T! out)", weight_quant_matmul},
    {"WeightQuantBatchMatmulV3" WEIGHT_QUANT "i inner_precise, T! out)", weight_quant_matmul},
    {"WeightQuantBatchMatmulNz" WEIGHT_QUANT "T! out)", weight_quant_matmul},
    {"DequantBias(T x, T weight_scale, T? activation_scale, T? bias, i type, T! out)", dequant_bias},
    {"TransposeBatchMatMul" TRANSPOSED, transpose_batch_matmul},
    {"TransposeBatchMatMulWeightNz" TRANSPOSED, transpose_batch_matmul},
});
}  // namespace
}  // namespace air_sim

#undef QUANT_MATMUL
#undef WEIGHT_QUANT
#undef TRANSPOSED
#undef ADD_NORM_QUANT
