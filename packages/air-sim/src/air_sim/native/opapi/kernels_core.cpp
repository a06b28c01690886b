// Functions of plain torch that one ATen call cannot say: modes given as numbers, random numbers, outputs of unknown size.
#include "attention.h"

namespace air_sim {
namespace {
// ---------------------------------------------------------------- modes given as numbers
std::optional<c10::string_view> rounding(int64_t mode) {
  if (mode == 0) return std::nullopt;
  return mode == 1 ? "trunc" : "floor";
}

Tensor scattered(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, int64_t reduction) {
  if (reduction == 0) return at::scatter(self, dim, index, source);
  return at::scatter(self, dim, index, source, reduction == 1 ? "add" : "multiply");
}
Tensor scattered(const Tensor& self, int64_t dim, const Tensor& index, const c10::Scalar& value, int64_t reduction) {
  if (reduction == 0) return at::scatter(self, dim, index, value);
  return at::scatter(self, dim, index, value, reduction == 1 ? "add" : "multiply");
}
c10::string_view reduce_name(int64_t mode) {
  static const char* const kNames[] = {"sum", "prod", "amax", "amin", "mean"};
  TORCH_CHECK(mode >= 1 && mode <= 5, "reduction ", mode, " is not one of 1 to 5");
  return kNames[mode - 1];
}

Tensor rounded(const Tensor& x, int64_t mode) {
  switch (mode) {
    case 1: return x.round();
    case 2: return x.floor();
    case 3: return x.ceil();
    case 5: return x.trunc();
    case 7: return x.frac();
    default: TORCH_CHECK(false, "the rounding mode ", mode, " is not implemented by air-sim");
  }
}
void round_all(Call& c, int64_t mode) {
  const auto from = c.tensors("self"), to = c.tensors("out");
  for (size_t k = 0; k < to.size(); ++k) to[k].copy_(rounded(from.at(k), mode));
}

// ---------------------------------------------------------------- random numbers, a function of (seed, offset)
at::Generator generator(int64_t seed, int64_t offset) {
  return at::detail::createCPUGenerator(static_cast<uint64_t>(seed) * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(offset));
}
at::Generator generator_of(const Call& c) { return generator(c.integer("seed"), c.integer("offset")); }
at::Generator generator_of_tensors(const Call& c) {
  return generator(c.tensor("seed").item<int64_t>(), c.tensor("offset").item<int64_t>() + c.integer("step"));
}
void uniform_integers(const Tensor& self, int64_t from, int64_t to, at::Generator g) {
  if (from == std::numeric_limits<int64_t>::min()) {
    self.random_(g);
  } else {
    self.random_(from, to, g);
  }
}

// A mask of one bit per element, least significant bit first; a set bit keeps the element.
Tensor pack_bits(const Tensor& keep, const Tensor& like) {
  Tensor packed = at::zeros(like.sizes(), like.options().dtype(at::kByte));
  auto flags = keep.to(at::kBool).contiguous();
  const bool* flag = flags.data_ptr<bool>();
  uint8_t* byte = packed.data_ptr<uint8_t>();
  for (int64_t i = 0; i < flags.numel() && i / 8 < packed.numel(); ++i)
    if (flag[i]) byte[i / 8] |= static_cast<uint8_t>(1u << (i % 8));
  return packed;
}
Tensor keep_mask(at::IntArrayRef shape, double p, at::Generator g) {
  return at::rand(shape, g, at::TensorOptions().dtype(at::kFloat)) >= p;
}
Tensor masked_dropout(const Tensor& self, const Tensor& keep, double p) {
  return p >= 1 ? at::zeros_like(self) : at::where(keep, self / (1 - p), at::zeros({}, self.options()));
}
void dropout_mask(Call& c, at::Generator g) {
  Tensor mask = c.tensor("out");
  c.write("out", pack_bits(keep_mask(c.ints("shape"), c.real("p"), g), mask));
}

const Family modes({
    {"ForeachRoundOffNumber(L self, T mode, L! out)", [](Call& c) { round_all(c, c.tensor("mode").item<int64_t>()); }},
    {"ForeachRoundOffNumberV2(L self, S mode, L! out)", [](Call& c) { round_all(c, c.scalar("mode").toLong()); }},
    {"RepeatInterleaveGrad(T grad, T repeats, i dim, T! out)",
     [](Call& c) {
       const Tensor from = at::repeat_interleave(c.tensor("repeats").to(at::kLong));
       c.write("out", at::zeros_like(c.tensor("out")).index_add(c.integer("dim"), from, c.tensor("grad")));
     }},
    {"DivMod(T self, T other, h mode, T! out)", [](Call& c) { c.write("out", at::div(c.tensor("self"), c.tensor("other"), rounding(c.integer("mode")))); }},
    {"DivMods(T self, S other, h mode, T! out)", [](Call& c) { c.write("out", at::div(c.tensor("self"), c.scalar("other"), rounding(c.integer("mode")))); }},
    {"InplaceDivMod(T! self, T other, h mode)", [](Call& c) { c.tensor("self").div_(c.tensor("other"), rounding(c.integer("mode"))); }},
    {"InplaceDivMods(T! self, S other, h mode)", [](Call& c) { c.tensor("self").div_(c.scalar("other"), rounding(c.integer("mode"))); }},
    {"GeluV2(T self, i approximate, T! out)", [](Call& c) { c.write("out", at::gelu(c.tensor("self"), approximation(c.integer("approximate")))); }},
    {"GeluBackwardV2(T grad, T self, s approximate, T! out)",
     [](Call& c) { c.write("out", at::gelu_backward(c.tensor("grad"), c.tensor("self"), c.text("approximate"))); }},
    {"Scatter(T self, i dim, T index, T source, i reduction, T! out)",
     [](Call& c) { c.write("out", scattered(c.tensor("self"), c.integer("dim"), c.tensor("index"), c.tensor("source"), c.integer("reduction"))); }},
    {"ScatterValue(T self, i dim, T index, S value, i reduction, T! out)",
     [](Call& c) { c.write("out", scattered(c.tensor("self"), c.integer("dim"), c.tensor("index"), c.scalar("value"), c.integer("reduction"))); }},
    {"InplaceScatter(T! self, i dim, T index, T source, i reduction)",
     [](Call& c) { c.write("self", scattered(c.tensor("self"), c.integer("dim"), c.tensor("index"), c.tensor("source"), c.integer("reduction"))); }},
    {"InplaceScatterValue(T! self, i dim, T index, S value, i reduction)",
     [](Call& c) { c.write("self", scattered(c.tensor("self"), c.integer("dim"), c.tensor("index"), c.scalar("value"), c.integer("reduction"))); }},
    {"ScatterReduce(T self, i dim, T index, T source, i reduction, b include_self, T! out)",
     [](Call& c) {
       c.write("out", at::scatter_reduce(c.tensor("self"), c.integer("dim"), c.tensor("index"), c.tensor("source"),
                                         reduce_name(c.integer("reduction")), c.flag("include_self")));
     }},
    {"InplaceScatterReduce(T! self, i dim, T index, T source, i reduction, b include_self)",
     [](Call& c) {
       c.tensor("self").scatter_reduce_(c.integer("dim"), c.tensor("index"), c.tensor("source"),
                                        reduce_name(c.integer("reduction")), c.flag("include_self"));
     }},
    {"InplaceMaskedFillTensor(T! self, T mask, T value)", [](Call& c) { c.tensor("self").masked_fill_(c.tensor("mask"), c.tensor("value").item()); }},
    {"IndexFillTensor(T self, i dim, I index, S value, T! out)",
     [](Call& c) { c.write("out", at::index_fill(c.tensor("self"), c.integer("dim"), at::tensor(c.ints("index"), at::kLong), c.scalar("value"))); }},
    {"InplaceIndexFillTensor(T! self, i dim, I index, S value)",
     [](Call& c) { c.tensor("self").index_fill_(c.integer("dim"), at::tensor(c.ints("index"), at::kLong), c.scalar("value")); }},
    {"OneHot(T self, i depth, T on, T off, i axis, T! out)",
     [](Call& c) {
       Tensor index = c.tensor("self").unsqueeze(-1).to(at::kLong), like = c.tensor("out");
       Tensor chosen = index == at::arange(c.integer("depth"), at::kLong);
       c.write("out", at::where(chosen, c.tensor("on").to(like.scalar_type()), c.tensor("off").to(like.scalar_type())));
     }},
    {"LinalgVectorNorm(T self, S ord, I? dim, b keepdim, D type, T! out)",
     [](Call& c) {
       auto dims = c.ints("dim");
       at::OptionalIntArrayRef where = dims.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(dims);
       c.write("out", at::linalg_vector_norm(c.tensor("self"), c.scalar("ord"), where, c.flag("keepdim"), c.dtype("type")));
     }},
    {"Norm(T self, S? p, I? dim, b keepdim, T! out)",
     [](Call& c) {
       auto self = c.tensor("self");
       auto p = c.has("p") ? c.scalar("p") : c10::Scalar(2.0);
       auto dims = c.ints("dim");
       at::OptionalIntArrayRef where = dims.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(dims);
       c.write("out", at::linalg_vector_norm(self, p, where, c.flag("keepdim"), std::nullopt));
     }},
    {"Aminmax(T self, I? dim, b keepdim, T! min, T! max)",
     [](Call& c) {
       auto self = c.tensor("self");
       auto dims = c.ints("dim");
       c.write("min", at::amin(self, dims, c.flag("keepdim")));
       c.write("max", at::amax(self, dims, c.flag("keepdim")));
     }},
    {"LinalgQr(T self, i mode, T! q, T! r)",
     [](Call& c) {
       static const char* const kModes[] = {"reduced", "complete", "r"};
       auto [q, r] = at::linalg_qr(c.tensor("self"), kModes[c.integer("mode")]);
       c.write("q", q);
       c.write("r", r);
     }},
});

const Family random({
    {"InplaceNormal(T! self, f mean, f std, i seed, i offset)", [](Call& c) { c.tensor("self").normal_(c.real("mean"), c.real("std"), generator_of(c)); }},
    {"InplaceNormalTensor(T! self, f mean, f std, T seed, T offset, i step)", [](Call& c) { c.tensor("self").normal_(c.real("mean"), c.real("std"), generator_of_tensors(c)); }},
    {"InplaceUniform(T! self, d from, d to, i seed, i offset)", [](Call& c) { c.tensor("self").uniform_(c.real("from"), c.real("to"), generator_of(c)); }},
    {"InplaceUniformTensor(T! self, d from, d to, T seed, T offset, i step)", [](Call& c) { c.tensor("self").uniform_(c.real("from"), c.real("to"), generator_of_tensors(c)); }},
    {"InplaceRandom(T! self, i from, i to, i seed, i offset)", [](Call& c) { uniform_integers(c.tensor("self"), c.integer("from"), c.integer("to"), generator_of(c)); }},
    {"InplaceRandomTensor(T! self, i from, i to, T seed, T offset, i step)", [](Call& c) { uniform_integers(c.tensor("self"), c.integer("from"), c.integer("to"), generator_of_tensors(c)); }},
    {"InplaceRandomWithoutFromTo(T! self, i seed, i offset)", [](Call& c) { c.tensor("self").random_(generator_of(c)); }},
    {"InplaceRandomWithoutFromToTensor(T! self, T seed, T offset, i step)", [](Call& c) { c.tensor("self").random_(generator_of_tensors(c)); }},
    {"InplaceBernoulli(T! self, S p, i seed, i offset)", [](Call& c) { c.tensor("self").bernoulli_(c.scalar("p").toDouble(), generator_of(c)); }},
    {"InplaceBernoulliTensor(T! self, T p, i seed, i offset)", [](Call& c) { c.tensor("self").bernoulli_(c.tensor("p"), generator_of(c)); }},
    {"SimThreadExponential(T! self, i count, d lambd, i seed, i offset)", [](Call& c) { c.tensor("self").exponential_(c.real("lambd"), generator_of(c)); }},
    {"StatelessExponentialTensor(T! self, d lambd, T seed, T offset, i step)", [](Call& c) { c.tensor("self").exponential_(c.real("lambd"), generator_of_tensors(c)); }},
    {"NormalFloatFloat(f mean, f std, i seed, i offset, T! out)", [](Call& c) { c.tensor("out").normal_(c.real("mean"), c.real("std"), generator_of(c)); }},
    {"NormalFloatTensor(f mean, T std, i seed, i offset, T! out)", [](Call& c) { c.write("out", at::normal(c.real("mean"), c.tensor("std"), generator_of(c))); }},
    {"NormalTensorFloat(T mean, f std, i seed, i offset, T! out)", [](Call& c) { c.write("out", at::normal(c.tensor("mean"), c.real("std"), generator_of(c))); }},
    {"NormalTensorTensor(T mean, T std, i seed, i offset, T! out)", [](Call& c) { c.write("out", at::normal(c.tensor("mean"), c.tensor("std"), generator_of(c))); }},
    {"Randperm(i n, i seed, i offset, T! out)", [](Call& c) { c.write("out", at::randperm(c.integer("n"), generator_of(c), at::TensorOptions().dtype(at::kLong))); }},
    {"Multinomial(T self, i samples, b replacement, i seed, i offset, T! out)",
     [](Call& c) { c.write("out", at::multinomial(c.tensor("self"), c.integer("samples"), c.flag("replacement"), generator_of(c))); }},
    {"MultinomialTensor(T self, i samples, b replacement, T seed, T offset, i step, T! out)",
     [](Call& c) { c.write("out", at::multinomial(c.tensor("self"), c.integer("samples"), c.flag("replacement"), generator_of_tensors(c))); }},
    {"RReluWithNoise(T self, T! noise, S lower, S upper, b training, i seed, i offset, T! out)",
     [](Call& c) {
       Tensor noise = c.tensor("noise");
       c.write("out", at::rrelu_with_noise(c.tensor("self"), noise, c.scalar("lower"), c.scalar("upper"), c.flag("training"), generator_of(c)));
     }},
    {"InplaceRReluWithNoise(T! self, T! noise, S lower, S upper, b training, i seed, i offset)",
     [](Call& c) {
       Tensor noise = c.tensor("noise"), self = c.tensor("self");
       at::rrelu_with_noise_(self, noise, c.scalar("lower"), c.scalar("upper"), c.flag("training"), generator_of(c));
     }},
    {"DropoutGenMask(I shape, d p, i seed, i offset, T! out)", [](Call& c) { dropout_mask(c, generator_of(c)); }},
    {"DropoutGenMaskV2(I shape, d p, i seed, i offset, D type, T! out)", [](Call& c) { dropout_mask(c, generator_of(c)); }},
    {"DropoutGenMaskV2Tensor(I shape, d p, T seed, T offset, i step, D type, T! out)", [](Call& c) { dropout_mask(c, generator_of_tensors(c)); }},
    {"DropoutDoMask(T self, T mask, d p, T! out)",
     [](Call& c) {
       Tensor self = c.tensor("self");
       c.write("out", masked_dropout(self, unpack_bits(c.tensor("mask"), self.sizes()), c.real("p")));
     }},
    {"DropoutV3Grad(T grad, T mask, d scale, T! out)",
     [](Call& c) {
       Tensor grad = c.tensor("grad");
       c.write("out", grad * unpack_bits(c.tensor("mask"), grad.sizes()) * c.real("scale"));
     }},
    {"DropoutV3(T self, T? noise_shape, d p, i seed, i offset, T! out, T! mask)",
     [](Call& c) {
       Tensor self = c.tensor("self"), keep = keep_mask(self.sizes(), c.real("p"), generator_of(c));
       c.write("out", masked_dropout(self, keep, c.real("p")));
       c.write("mask", pack_bits(keep, c.tensor("mask")));
     }},
});

// ---------------------------------------------------------------- outputs whose size follows from the values
const Family dynamic({
    {"MaskedSelect(T self, T mask, T! out)", [](Call& c) { c.write_resized("out", at::masked_select(c.tensor("self"), c.tensor("mask"))); }},
    {"Nonzero(T self, T! out)", [](Call& c) { c.write_resized("out", at::nonzero(c.tensor("self"))); }},
    {"NonzeroV2(T self, T! out)", [](Call& c) { c.write_resized("out", at::nonzero(c.tensor("self")).t().contiguous()); }},
    {"Unique(T self, b sorted, b inverse, T! values, T! indices)",
     [](Call& c) {
       auto [values, indices] = at::_unique(c.tensor("self"), true, true);
       c.write_resized("values", values);
       if (c.flag("inverse")) c.write("indices", indices);
     }},
    {"Unique2(T self, b sorted, b inverse, b counts, T! values, T! indices, T! count)",
     [](Call& c) {
       auto [values, indices, count] = at::_unique2(c.tensor("self"), true, true, true);
       c.write_resized("values", values);
       if (c.flag("inverse") || c.flag("counts")) c.write("indices", indices);
       if (c.flag("counts")) c.write_resized("count", count);
     }},
    {"UniqueConsecutive(T self, b inverse, b counts, i dim, T! values, T! indices, T! count)",
     [](Call& c) {
       auto dim = c.integer("dim");
       auto [values, indices, count] = at::unique_consecutive(c.tensor("self"), true, true, dim == 1000 ? std::nullopt : std::optional<int64_t>(dim));
       c.write_resized("values", values);
       if (c.flag("inverse")) c.write_resized("indices", indices);
       if (c.flag("counts")) c.write_resized("count", count);
     }},
    // `places` says which of the different indices each of the given ones is.
    {"CoalesceSparse(T different, T places, T indices, T values, T! new_indices, T! new_values)",
     [](Call& c) {
       const Tensor places = c.tensor("places").to(at::kLong), values = c.tensor("values");
       c.write("new_indices", at::zeros_like(c.tensor("new_indices")).index_copy(0, places, c.tensor("indices")));
       c.write("new_values", at::zeros_like(c.tensor("new_values")).index_add(0, places, values));
     }},
    {"UniqueDim(T self, b sorted, b inverse, i dim, T! values, T! indices, T! count)",
     [](Call& c) {
       auto [values, indices, count] = at::unique_dim(c.tensor("self"), c.integer("dim"), true, true, true);
       c.write_resized("values", values);
       c.write_resized("indices", indices);
       c.write_resized("count", count);
     }},
});
}  // namespace
}  // namespace air_sim
