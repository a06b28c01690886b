// Operators that only move values: shapes, slices, joins.
#include <algorithm>

#include "kernels.h"

namespace air_sim::graph_engine {
namespace {
Tensor squeeze(const Call& c) {
  Tensor t = c.in[0];
  Ints axes = c.ints("axis", c.ints("axes"));
  if (axes.empty()) return t.squeeze();
  return t.squeeze(axes);
}
Tensor unsqueeze(const Call& c) {
  Tensor t = c.in[0];
  for (const int64_t axis : c.ints("axes")) t = t.unsqueeze(axis);
  return t;
}
// The bounds are given per axis of the input; bits of the masks say where one is to be ignored.
Ints values_if_any(const Call& c, size_t input) { return c.given(input) && c.in[input].numel() > 0 ? c.values(input) : Ints(); }
// The second form of the operator has the axes before the strides.
Tensor strided_slice(const Call& c, bool has_axes) {
  const Tensor& x = c.in[0];
  const Ints begin = c.values(1), end = c.values(2);
  Ints axes = has_axes ? values_if_any(c, 3) : Ints(), strides = values_if_any(c, has_axes ? 4 : 3);
  for (size_t i = axes.size(); i < begin.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  strides.resize(begin.size(), 1);
  Tensor t = x;
  for (size_t i = 0; i < begin.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + x.dim() : axes[i];
    const bool from_start = c.integer("begin_mask") >> i & 1, to_end = c.integer("end_mask") >> i & 1;
    const at::optional<int64_t> first = from_start ? at::nullopt : at::optional<int64_t>(begin[i]);
    const at::optional<int64_t> last = to_end ? at::nullopt : at::optional<int64_t>(end[i]);
    t = t.slice(axis, first, last, strides[i]);
  }
  for (size_t i = begin.size(); i-- > 0;)
    if (c.integer("shrink_axis_mask") >> i & 1) t = t.squeeze(axes[i]);
  return t.contiguous();
}
Tensor concatenate(const Call& c, bool axis_is_last) {
  Tensors parts(c.in.begin(), c.in.end());
  int64_t axis = c.integer("concat_dim");
  if (axis_is_last) {
    axis = c.value(parts.size() - 1);
    parts.pop_back();
  }
  return at::cat(parts, axis);
}
Tensors contiguous(Tensors list) {
  for (Tensor& t : list) t = t.contiguous();
  return list;
}
// One size may be -1: what is left of the axis.
Ints split_sizes(const Call& c) {
  Ints sizes = c.values(1);
  int64_t rest = c.in[0].size(c.value(2));
  for (const int64_t size : sizes) rest -= size < 0 ? 0 : size;
  for (int64_t& size : sizes)
    if (size < 0) size = rest;
  return sizes;
}
Tensor pad(const Call& c) {
  const Ints pairs = c.values(1);  // begin and end of every axis, the first axis first
  Ints amounts;                    // ATen wants the last axis first
  for (size_t axis = pairs.size() / 2; axis-- > 0;) {
    amounts.push_back(pairs[2 * axis]);
    amounts.push_back(pairs[2 * axis + 1]);
  }
  const std::string mode = c.text("mode", "constant");
  // ATen's borders take pairs for the last axes alone; those in front do not grow
  const size_t own = 2 * std::max<int64_t>(1, c.in[0].dim() - 2);
  while (mode != "constant" && amounts.size() > own && !amounts.back() && !amounts[amounts.size() - 2])
    amounts.resize(amounts.size() - 2);
  if (mode != "constant") return at::pad(c.in[0], amounts, mode == "edge" ? "replicate" : mode);
  const at::Scalar fill = c.given(2) ? c.in[2].flatten()[0].item() : at::Scalar(0);
  return at::constant_pad_nd(c.in[0], amounts, fill);
}
Tensor range(const Call& c) {
  const at::ScalarType type = c.in[0].scalar_type();
  return at::arange(c.number(0), c.number(1), c.number(2), at::TensorOptions(type));
}
Tensor shape(const Call& c) {
  const Ints sizes = c.in[0].sizes().vec();
  return at::tensor(sizes, at::kLong).to(c.has("dtype") ? type_of_api(c.integer("dtype")) : at::kInt);
}
Tensor expand(const Call& c) {
  Ints sizes = c.values(1);
  const int64_t extra = static_cast<int64_t>(sizes.size()) - c.in[0].dim();
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] == -1) sizes[i] = c.in[0].size(static_cast<int64_t>(i) - extra);
  return c.in[0].expand(sizes).contiguous();
}
Tensor fill(const Call& c) { return at::full(c.values(0), c.in[1].item(), c.in[1].options()); }
// Elements of a value by strides, counted from its own first one: it may be a part of another value's memory.
Tensor strided(const Tensor& of, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset) {
  return of.as_strided(sizes, strides, of.storage_offset() + offset);
}
Tensor view_copy(const Call& c) {
  const Tensor to = strided(c.in[0], c.values(1), c.values(2), c.value(3));
  to.copy_(strided(c.in[4], c.values(5), c.values(6), c.value(7)));
  return c.in[0];
}
}  // namespace

void add_shapes(Table& table) {
  AIR_SIM_GE_OP(Identity, x[0].clone());
  AIR_SIM_GE_OP(TensorMove, x[0].clone());
  AIR_SIM_GE_OP(Reshape, x[0].reshape(c.values(1)));
  AIR_SIM_GE_OP(Flatten, x[0].flatten(c.integer("axis", 1)));
  AIR_SIM_GE_OP(Transpose, x[0].permute(c.values(1)).contiguous());
  AIR_SIM_GE_OP(TransposeD, x[0].permute(c.ints("perm")).contiguous());
  AIR_SIM_GE_OP(Unsqueeze, unsqueeze(c));
  AIR_SIM_GE_OP(ExpandDims, x[0].unsqueeze(c.value(1)));
  AIR_SIM_GE_OP(Squeeze, squeeze(c));
  AIR_SIM_GE_OP(BroadcastTo, expand(c));
  AIR_SIM_GE_OP(Expand, expand(c));
  AIR_SIM_GE_OP(Tile, x[0].repeat(c.values(1)));
  AIR_SIM_GE_OP(Shape, shape(c));
  AIR_SIM_GE_OP(Size, at::tensor(x[0].numel(), at::kInt));
  AIR_SIM_GE_OP(Fill, fill(c));
  AIR_SIM_GE_OP(FillV2, at::full(c.values(0), c.real("value")));
  AIR_SIM_GE_OP(Range, range(c));
  AIR_SIM_GE_OP(LinSpace, at::linspace(x[0].item(), x[1].item(), c.value(2), x[0].options()));
  AIR_SIM_GE_OP(OnesLike, at::ones_like(x[0]));
  AIR_SIM_GE_OP(ZerosLike, at::zeros_like(x[0]));
  AIR_SIM_GE_OP(StridedSliceV2, strided_slice(c, true));
  AIR_SIM_GE_OP(StridedSlice, strided_slice(c, false));
  AIR_SIM_GE_OP(ConcatV2, concatenate(c, true));
  AIR_SIM_GE_OP(ConcatD, concatenate(c, false));
  AIR_SIM_GE_OP(ConcatV2D, concatenate(c, false));
  AIR_SIM_GE_OP(Pack, at::stack(x, c.integer("axis")));
  AIR_SIM_GE_OPS(Unpack, contiguous(x[0].unbind(c.integer("axis"))));
  AIR_SIM_GE_OPS(SplitV, contiguous(x[0].split_with_sizes(split_sizes(c), c.value(2))));
  AIR_SIM_GE_OPS(Split, contiguous(x[1].chunk(c.integer("num_split"), c.value(0))));
  AIR_SIM_GE_OP(PadV3, pad(c));
  AIR_SIM_GE_OP(Pad, pad(c));
  AIR_SIM_GE_OP(ReverseV2, x[0].flip(c.values(1)));
  AIR_SIM_GE_OP(Roll, at::roll(x[0], c.ints("shifts"), c.ints("dims")));
  AIR_SIM_GE_OP(
      AsStrided, strided(x[0].contiguous(), c.values(1), c.values(2), c.given(3) ? c.value(3) : 0).contiguous());
  AIR_SIM_GE_OP(ViewCopy, view_copy(c));
  AIR_SIM_GE_OP(Tril, x[0].tril(c.integer("diagonal")));
  AIR_SIM_GE_OP(Triu, x[0].triu(c.integer("diagonal")));
}
}  // namespace air_sim::graph_engine
