// Grouped matrix products: one product per expert, the rows of each expert one after the other.
#include "fused.h"

namespace air_sim {
namespace {
// Where each group ends.  type 0: the list holds the ends, 1: the sizes, 2: pairs of expert and size.
std::vector<int64_t> ends_of(const Call& c, int64_t groups, int64_t total) {
  std::vector<int64_t> ends;
  if (!c.has("groups")) return ends;
  Tensor list = c.tensor("groups").to(at::kLong).contiguous();
  int64_t type = c.integer("list_type");
  if (type == 2) {
    Tensor sizes = at::zeros({groups}, at::kLong).scatter(0, list.select(1, 0), list.select(1, 1));
    list = sizes.cumsum(0);
  } else if (type == 1) {
    list = list.cumsum(0);
  }
  const int64_t* values = list.data_ptr<int64_t>();
  ends.assign(values, values + list.numel());
  TORCH_CHECK(ends.empty() || (ends.back() <= total && ends.front() >= 0), "group_list ends at ", ends.empty() ? 0 : ends.back(), " of ", total, " rows");
  return ends;
}

Tensor activated(const Tensor& x, int64_t type) {
  switch (type) {
    case 0: return x;
    case 1: return at::relu(x);
    case 2: return at::gelu(x, "tanh");
    case 3: return at::gelu(x);
    case 4: return x / (1 + (x * -1.702).exp());
    case 5: return at::silu(x);
    default: TORCH_CHECK(false, "act_type ", type, " is not implemented by air-sim");
  }
}

// The i-th tensor of a list; a list of one tensor with a leading group dimension is cut.
Tensor of_group(const std::vector<Tensor>& list, size_t group, size_t groups) {
  if (list.empty()) return Tensor();
  if (list.size() == 1 && groups > 1) return list[0].defined() && list[0].numel() > 0 ? list[0].select(0, static_cast<int64_t>(group)) : Tensor();
  return list[group].defined() && list[group].numel() > 0 ? list[group] : Tensor();
}

struct Operands {
  std::vector<Tensor> x, weight, bias, scale, antiquant_scale, antiquant_offset, row_scale;
  explicit Operands(const Call& c)
      : x(c.tensors("x")), weight(c.tensors("weight")), bias(c.tensors("bias")), scale(c.tensors("scale")),
        antiquant_scale(c.tensors("antiquant_scale")), antiquant_offset(c.tensors("antiquant_offset")), row_scale(c.tensors("row_scale")) {
    for (Tensor& one : x) one = operand(one);
    for (Tensor& one : weight) one = operand(one, x[0].size(-1));
  }

  Tensor product(const Tensor& rows, size_t group, size_t groups, const Tensor& scale_of_rows) const {
    Tensor w = of_group(weight, group, groups);
    if (w.dim() == 3 && w.size(0) == 1) w = w.squeeze(0);
    auto wide = rows.scalar_type() == at::kChar || rows.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    w = w.to(wide);
    if (Tensor offset = of_group(antiquant_offset, group, groups); offset.defined()) w = w + offset.to(wide);
    if (Tensor s = of_group(antiquant_scale, group, groups); s.defined()) w = w * s.to(wide);
    Tensor out = at::matmul(rows.to(wide), w), b = of_group(bias, group, groups);
    bool integer_bias = b.defined() && b.scalar_type() == at::kInt;
    if (integer_bias) out = out + b.to(wide);
    if (Tensor s = of_group(scale, group, groups); s.defined()) out = out * plain_scale(s);
    if (scale_of_rows.defined()) out = out * scale_of_rows.to(wide).unsqueeze(-1);
    return b.defined() && !integer_bias ? out + b.to(wide) : out;
  }
};

void write_list(const Call& c, const std::vector<Tensor>& results) {
  auto targets = c.tensors("out");
  TORCH_CHECK(targets.size() == results.size(), "out has ", targets.size(), " tensors for ", results.size(), " results");
  std::vector<Tensor> cast;
  for (size_t i = 0; i < results.size(); ++i) cast.push_back(narrow_to(results[i], targets[i].scalar_type()));
  for (size_t i = 0; i < c.definition.parameters.size(); ++i)
    if (c.definition.parameters[i].name == "out") c.write_list_at(i, cast);
}

// Every x has its own weight.
void separately(const Call& c, const Operands& o, int64_t activation) {
  std::vector<Tensor> results;
  for (size_t g = 0; g < o.x.size(); ++g)
    results.push_back(activated(o.product(o.x[g], g, o.weight.size(), of_group(o.row_scale, g, o.x.size())), activation));
  if (c.tensors("out").size() == 1 && results.size() > 1) results = {at::cat(results)};
  write_list(c, results);
}

// One x, cut into the rows of each group.
void by_rows(const Call& c, const Operands& o, int64_t activation) {
  size_t groups = o.weight.size() == 1 ? static_cast<size_t>(o.weight[0].size(0)) : o.weight.size();
  auto ends = ends_of(c, static_cast<int64_t>(groups), o.x[0].size(0));
  std::vector<Tensor> results;
  Tensor row_scale = of_group(o.row_scale, 0, 1);
  for (size_t g = 0; g < ends.size(); ++g) {
    int64_t from = g ? ends[g - 1] : 0, count = ends[g] - from;
    Tensor scale = row_scale.defined() ? row_scale.narrow(0, from, count) : Tensor();
    results.push_back(activated(o.product(o.x[0].narrow(0, from, count), g, groups, scale), activation));
  }
  auto targets = c.tensors("out");
  if (targets.size() == 1) {
    Tensor found = at::cat(results), all = at::zeros({o.x[0].size(0), found.size(1)}, at::kDouble);
    all.narrow(0, 0, found.size(0)).copy_(found);
    results = {all};
  }
  write_list(c, results);
}

// The groups cut the common dimension: one product per group, stacked.
void by_depth(const Call& c, const Operands& o) {
  auto targets = c.tensors("out");
  int64_t groups = targets.size() == 1 ? targets[0].size(0) : static_cast<int64_t>(targets.size());
  auto ends = ends_of(c, groups, o.x[0].size(-1));
  std::vector<Tensor> results;
  for (size_t g = 0; g < ends.size(); ++g) {
    int64_t from = g ? ends[g - 1] : 0, count = ends[g] - from;
    Tensor weight = o.weight.size() == 1 ? o.weight[0].narrow(0, from, count) : o.weight[g];
    results.push_back(at::matmul(o.x[0].narrow(-1, from, count).to(at::kFloat), weight.to(at::kFloat)));
  }
  if (targets.size() == 1) results = {at::stack(results)};
  write_list(c, results);
}

void grouped_matmul(Call& c) {
  Operands o(c);
  int64_t activation = c.integer("activation");
  if (c.integer("group_type") == 2) return by_depth(c, o);
  if (o.x.size() > 1 || !c.has("groups")) return separately(c, o, activation);
  by_rows(c, o, activation);
}

#define OPERANDS "L x, L weight, L? bias, L? scale, L? offset, L? antiquant_scale, L? antiquant_offset, L? row_scale, T? groups, "
#define ACTIVATION "L? act_in, L? act_scale, L? act_offset, i split_item, i group_type, i list_type, i activation, "
#define RESULTS "L! out, L? act_out, L? dynamic_scale)"
const Family grouped({
    {"GroupedMatmulV4(" OPERANDS ACTIVATION RESULTS, grouped_matmul},
    {"GroupedMatmulV5(" OPERANDS ACTIVATION "I? tuning, " RESULTS, grouped_matmul},
    {"GroupedMatmulWeightNz(" OPERANDS ACTIVATION "I? tuning, i group_size, " RESULTS, grouped_matmul},
});
}  // namespace
}  // namespace air_sim

#undef OPERANDS
#undef ACTIVATION
#undef RESULTS
