// Collectives inside a graph: the same wires as the HCCL functions, found by the name of the group.
#include "air_sim/collectives.h"
#include "kernels.h"
#include "third_party/hccl/inc/hccl/hccl_types.h"

namespace air_sim::graph_engine {
namespace {
int wire_type(at::ScalarType type) {
  static const std::map<at::ScalarType, int> types = {
      {at::kChar, HCCL_DATA_TYPE_INT8},  {at::kByte, HCCL_DATA_TYPE_UINT8}, {at::kShort, HCCL_DATA_TYPE_INT16},
      {at::kInt, HCCL_DATA_TYPE_INT32},  {at::kLong, HCCL_DATA_TYPE_INT64}, {at::kHalf, HCCL_DATA_TYPE_FP16},
      {at::kFloat, HCCL_DATA_TYPE_FP32}, {at::kDouble, HCCL_DATA_TYPE_FP64}, {at::kBFloat16, HCCL_DATA_TYPE_BFP16},
      {at::kBool, HCCL_DATA_TYPE_UINT8}};
  const auto found = types.find(type);
  TORCH_CHECK(found != types.end(), "collectives do not carry ", c10::toString(type));
  return found->second;
}
std::shared_ptr<Communicator> group_of(const Call& c) {
  const auto comm = find_communicator(c.text("group"));
  TORCH_CHECK(comm, "no communicator has the group name '", c.text("group"), "'");
  return comm;
}
Reduction reduction_of(const Call& c) {
  static const std::map<std::string, Reduction> names = {
      {"sum", Reduction::sum}, {"prod", Reduction::product}, {"max", Reduction::maximum}, {"min", Reduction::minimum}};
  const auto found = names.find(c.text("reduction"));
  TORCH_CHECK(found != names.end(), "reduction '", c.text("reduction"), "' is not known");
  return found->second;
}
Tensor gathered(const Call& c) {
  const Tensor x = c.in[0].contiguous();
  Ints shape = x.sizes().vec();
  shape.at(0) *= c.integer("rank_size");
  const Tensor y = at::zeros(shape, x.options());
  if (!c.dry) all_gather(*group_of(c), x.data_ptr(), y.data_ptr(), x.numel(), wire_type(x.scalar_type()));
  return y;
}
Tensor reduced(const Call& c) {
  const Tensor x = c.in[0].contiguous(), y = at::zeros_like(x);
  if (!c.dry) all_reduce(*group_of(c), x.data_ptr(), y.data_ptr(), x.numel(), wire_type(x.scalar_type()), reduction_of(c));
  return y;
}
Tensor scattered(const Call& c) {
  const Tensor x = c.in[0].contiguous();
  Ints shape = x.sizes().vec();
  shape.at(0) /= c.integer("rank_size");
  const Tensor y = at::zeros(shape, x.options());
  if (!c.dry)
    reduce_scatter(*group_of(c), x.data_ptr(), y.data_ptr(), y.numel(), wire_type(x.scalar_type()), reduction_of(c));
  return y;
}
Tensors broadcasted(const Call& c) {
  Tensors results;
  for (const Tensor& in : c.in) {
    const Tensor y = in.contiguous().clone();
    if (!c.dry) broadcast(*group_of(c), y.data_ptr(), y.numel(), wire_type(y.scalar_type()), c.integer("root_rank"));
    results.push_back(y);
  }
  return results;
}
std::vector<uint64_t> unsigned_values(const Call& c, size_t input) {
  const Ints list = c.values(input);
  return {list.begin(), list.end()};
}
// The pieces of a buffer by their counts and, where they are given, their places; else one lies after the other.
Pieces pieces_of(const Call& c, size_t counts, size_t offsets) {
  Pieces pieces{unsigned_values(c, counts), {}};
  if (c.given(offsets)) {
    pieces.offsets = unsigned_values(c, offsets);
    return pieces;
  }
  uint64_t at = 0;
  for (const uint64_t count : pieces.counts) {
    pieces.offsets.push_back(at);
    at += count;
  }
  return pieces;
}
int64_t elements(const Pieces& pieces) {
  int64_t sum = 0;
  for (const uint64_t count : pieces.counts) sum += static_cast<int64_t>(count);
  return sum;
}
// Room for so many elements: rows like those of `x` where they fill some, else a plain list.
Tensor room_for(const Tensor& x, int64_t count) {
  Ints shape = x.sizes().vec();
  int64_t row = 1;
  for (size_t d = 1; d < shape.size(); ++d) row *= shape[d];
  if (shape.empty() || row == 0 || count % row != 0) return at::zeros({count}, x.options());
  shape[0] = count / row;
  return at::zeros(shape, x.options());
}
Tensor all_to_all_even(const Call& c) {
  const Tensor x = c.in[0].contiguous(), y = at::zeros_like(x);
  if (c.dry) return y;
  const auto group = group_of(c);
  const uint64_t ranks = rank_count(*group), each = static_cast<uint64_t>(x.numel()) / ranks;
  TORCH_CHECK(each * ranks == static_cast<uint64_t>(x.numel()), x.numel(), " elements cannot be shared by ", ranks, " ranks");
  Pieces pieces{std::vector<uint64_t>(ranks, each), {}};
  for (uint64_t rank = 0; rank < ranks; ++rank) pieces.offsets.push_back(rank * each);
  all_to_all(*group, x.data_ptr(), pieces, y.data_ptr(), pieces, wire_type(x.scalar_type()));
  return y;
}
Tensor gathered_v(const Call& c) {
  const Tensor x = c.in[0].contiguous();
  const Pieces pieces = pieces_of(c, 2, 3);
  const Tensor y = room_for(x, elements(pieces));
  if (!c.dry) all_gather_v(*group_of(c), x.data_ptr(), c.value(1), y.data_ptr(), pieces, wire_type(x.scalar_type()));
  return y;
}
Tensor scattered_v(const Call& c) {
  const Tensor x = c.in[0].contiguous(), y = room_for(x, c.value(1));
  if (!c.dry)
    reduce_scatter_v(*group_of(c), x.data_ptr(), pieces_of(c, 2, 3), y.data_ptr(), wire_type(x.scalar_type()), reduction_of(c));
  return y;
}
Tensor all_to_all_v(const Call& c) {
  const Tensor x = c.in[0].contiguous();
  const Pieces out = pieces_of(c, 1, 2), in = pieces_of(c, 3, 4);
  const Tensor y = room_for(x, elements(in));
  if (!c.dry) all_to_all(*group_of(c), x.data_ptr(), out, y.data_ptr(), in, wire_type(x.scalar_type()));
  return y;
}
Tensors sent(const Call& c) {
  const Tensor x = c.in[0].contiguous();
  if (!c.dry) send(*group_of(c), x.data_ptr(), x.numel(), wire_type(x.scalar_type()), c.integer("dest_rank"));
  return {};
}
Tensor received(const Call& c) {
  const Tensor y = at::zeros(c.ints("shape"), at::TensorOptions(type_of_api(c.integer("dtype"))));
  if (!c.dry) receive(*group_of(c), y.data_ptr(), y.numel(), wire_type(y.scalar_type()), c.integer("src_rank"));
  return y;
}
}  // namespace

void add_collectives(Table& table) {
  AIR_SIM_GE_OP(HcomAllGather, gathered(c));
  AIR_SIM_GE_OP(HcomAllReduce, reduced(c));
  AIR_SIM_GE_OP(HcomReduceScatter, scattered(c));
  AIR_SIM_GE_OPS(HcomBroadcast, broadcasted(c));
  AIR_SIM_GE_OP(HcomAllGatherV, gathered_v(c));
  AIR_SIM_GE_OP(HcomReduceScatterV, scattered_v(c));
  AIR_SIM_GE_OP(HcomAllToAll, all_to_all_even(c));
  AIR_SIM_GE_OP(HcomAllToAllV, all_to_all_v(c));
  AIR_SIM_GE_OPS(HcomSend, sent(c));
  AIR_SIM_GE_OP(HcomReceive, received(c));
}
}  // namespace air_sim::graph_engine
