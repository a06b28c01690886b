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
Tensor all_to_all_v(const Call& c) {
  const Tensor x = c.in[0].contiguous();
  const Pieces out{unsigned_values(c, 1), unsigned_values(c, 2)}, in{unsigned_values(c, 3), unsigned_values(c, 4)};
  int64_t count = 0;
  for (const uint64_t n : in.counts) count += static_cast<int64_t>(n);
  const Tensor y = at::zeros({count}, x.options());
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
  AIR_SIM_GE_OP(HcomAllToAllV, all_to_all_v(c));
  AIR_SIM_GE_OPS(HcomSend, sent(c));
  AIR_SIM_GE_OP(HcomReceive, received(c));
}
}  // namespace air_sim::graph_engine
