// Operators without inputs, those with no result that anybody reads, and the one that chooses between graphs.
#include <cstring>
#include <fstream>
#include <iostream>

#include "air_sim/runtime.h"
#include "kernels.h"

namespace air_sim::graph_engine {
namespace {
Tensor constant(const Call& c) {
  const auto found = c.op.attributes.find("value");
  TORCH_CHECK(found != c.op.attributes.end(), "it has no value");
  const Attribute& value = found->second;
  const Tensor t = at::empty(value.tensor.shape, type_of_graph(value.tensor.type));
  TORCH_CHECK(value.tensor_data.size() >= t.nbytes(), "its value has ", value.tensor_data.size(), " of ", t.nbytes(), " bytes");
  memcpy(t.data_ptr(), value.tensor_data.data(), t.nbytes());
  return t;
}
Tensor eye(const Call& c) {
  const int64_t rows = c.integer("num_rows"), columns = c.integer("num_columns");
  const Tensor one = at::eye(rows, columns ? columns : rows, type_of_api(c.integer("dtype")));
  Ints shape = c.ints("batch_shape");
  shape.insert(shape.end(), {one.size(0), one.size(1)});
  return one.expand(shape).contiguous();
}
// A constant that lives in device memory already.
Tensor placeholder(const Call& c) {
  void* address = host_address(reinterpret_cast<void*>(c.integer("addr")));
  return at::from_blob(address, c.ints("origin_shape"), at::TensorOptions(type_of_api(c.integer("dtype"))));
}
Tensor from_file(const Call& c) {
  const Tensor t = at::empty(c.ints("shape"), type_of_api(c.integer("dtype")));
  std::ifstream file(c.text("file_path"), std::ios::binary);
  TORCH_CHECK(file.read(static_cast<char*>(t.data_ptr()), static_cast<std::streamsize>(t.nbytes())), "cannot read ",
              t.nbytes(), " bytes from ", c.text("file_path"));
  return t;
}
Tensors print(const Call& c) {
  if (!c.dry) std::cerr << c.in.at(0) << "\n";
  return {};
}
// One of two graphs over the values after the condition. A single value counts as its truth, others as not being empty.
Tensors chosen(const Call& c) {
  const Tensor& condition = c.in.at(0);
  const bool truth = condition.numel() == 1 ? condition.item().toBool() : condition.numel() > 0;
  const Model& body = *c.op.bodies.at(truth ? 0 : 1);
  Tensors given;
  for (const Op* data : body.inputs) given.push_back(c.in.at(1 + index_of(data)));
  return run(body, given, c.dry);
}
}  // namespace

void add_sources(Table& table) {
  AIR_SIM_GE_OP(Eye, eye(c));
  AIR_SIM_GE_OP(Const, constant(c));
  AIR_SIM_GE_OP(Constant, constant(c));
  AIR_SIM_GE_OP(ConstPlaceHolder, placeholder(c));
  AIR_SIM_GE_OP(FileConstant, from_file(c));
  AIR_SIM_GE_OPS(If, chosen(c));
  AIR_SIM_GE_OPS(NoOp, Tensors());
  AIR_SIM_GE_OPS(Cmo, Tensors());  // a prefetch into a cache that does not exist
  AIR_SIM_GE_OPS(PrintV2, print(c));
  AIR_SIM_GE_OP(StringFormat, x.at(0));
}
}  // namespace air_sim::graph_engine
