// Parses graphs, and knows both numberings of data types.
#include "model.h"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace air_sim::graph_engine {
namespace {
// Field numbers of the graph format (ge.proto).
namespace field {
constexpr int kModelGraph = 7, kGraphName = 1, kGraphOutput = 5, kGraphOp = 6;
constexpr int kOpName = 1, kOpType = 2, kOpInput = 5, kOpAttribute = 10, kOpInputDesc = 33, kOpOutputDesc = 34, kOpBody = 35;
constexpr int kEntryKey = 1, kEntryValue = 2;
constexpr int kList = 1, kText = 2, kInteger = 3, kReal = 4, kFlag = 5, kRaw = 7, kTensor = 12, kType = 15;
constexpr int kListText = 2, kListInteger = 3, kListReal = 4, kListFlag = 5, kListType = 12;
constexpr int kTensorDesc = 1, kTensorData = 2;
constexpr int kDescType = 2, kDescShape = 3, kShapeDim = 1;
}  // namespace field

struct TypeRow {
  int graph, api;
  at::ScalarType type;
};
const TypeRow kTypes[] = {
    {1, 0, at::kFloat},   {2, 1, at::kHalf},   {3, 2, at::kChar},     {4, 4, at::kByte},           {5, 6, at::kShort},
    {7, 3, at::kInt},     {8, 9, at::kLong},   {11, 12, at::kBool},   {12, 11, at::kDouble},       {16, 16, at::kComplexFloat},
    {17, 17, at::kComplexDouble}, {27, 27, at::kBFloat16}, {6, 7, at::kUInt16}, {9, 8, at::kUInt32}, {10, 10, at::kUInt64},
    {34, 35, at::kFloat8_e5m2}, {35, 36, at::kFloat8_e4m3fn}, {36, 37, at::kFloat8_e8m0fnu},
    {kFourBits, 29, at::kChar}};  // one value in each number of eight

Desc parse_desc(Bytes bytes) {
  Desc desc;
  for (const Field& f : fields(bytes)) {
    if (f.number == field::kDescType) desc.type = static_cast<int>(f.value);
    if (f.number == field::kDescShape)
      for (const Field& dim : fields(f.bytes))
        if (dim.number == field::kShapeDim) append_ints(dim, desc.shape);
  }
  return desc;
}
void parse_list(Bytes bytes, Attribute& out) {
  for (const Field& f : fields(bytes)) {
    if (f.number == field::kListInteger || f.number == field::kListFlag || f.number == field::kListType)
      append_ints(f, out.ints);
    else if (f.number == field::kListReal)
      append_floats(f, out.reals);
  }
}
Attribute parse_attribute(Bytes bytes) {
  Attribute out;
  for (const Field& f : fields(bytes)) {
    switch (f.number) {
      case field::kText:
      case field::kRaw: out.text = f.bytes.str(); break;
      case field::kInteger:
      case field::kFlag:
      case field::kType: out.integer = static_cast<int64_t>(f.value); break;
      case field::kReal: {
        std::vector<float> one;
        append_floats(f, one);
        out.real = one[0];
        break;
      }
      case field::kList: parse_list(f.bytes, out); break;
      case field::kTensor:
        for (const Field& part : fields(f.bytes)) {
          if (part.number == field::kTensorDesc) out.tensor = parse_desc(part.bytes);
          if (part.number == field::kTensorData) out.tensor_data = part.bytes.str();
        }
        break;
      default: break;
    }
  }
  return out;
}
Edge parse_edge(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {text, 0};
  return {text.substr(0, colon), std::stoi(text.substr(colon + 1))};
}
void parse_op_attribute(Bytes entry, Op& op) {
  std::string key;
  Attribute value;
  for (const Field& f : fields(entry)) {
    if (f.number == field::kEntryKey) key = f.bytes.str();
    if (f.number == field::kEntryValue) value = parse_attribute(f.bytes);
  }
  op.attributes[key] = std::move(value);
}
Op parse_op(Bytes bytes) {
  Op op;
  for (const Field& f : fields(bytes)) {
    switch (f.number) {
      case field::kOpName: op.name = f.bytes.str(); break;
      case field::kOpType: op.type = f.bytes.str(); break;
      case field::kOpInput: op.inputs.push_back(parse_edge(f.bytes.str())); break;
      case field::kOpAttribute: parse_op_attribute(f.bytes, op); break;
      case field::kOpInputDesc: op.input_descs.push_back(parse_desc(f.bytes)); break;
      case field::kOpBody: op.body_names.push_back(f.bytes.str()); break;
      case field::kOpOutputDesc: op.output_descs.push_back(parse_desc(f.bytes)); break;
      default: break;
    }
  }
  return op;
}

bool is_ready(const Op& op, const std::set<std::string>& done) {
  return std::all_of(op.inputs.begin(), op.inputs.end(),
                     [&](const Edge& e) { return e.node.empty() || done.count(e.node) != 0; });
}
// Sorts the operators so that each comes after what it reads.
void sort_by_dependence(Model& model) {
  std::set<std::string> done;
  for (const Op* input : model.inputs) done.insert(input->name);
  std::vector<const Op*> left = std::move(model.order), sorted;
  while (!left.empty()) {
    std::vector<const Op*> later;
    for (const Op* op : left) {
      if (!is_ready(*op, done)) {
        later.push_back(op);
        continue;
      }
      done.insert(op->name);
      sorted.push_back(op);
    }
    if (later.size() == left.size())
      throw std::runtime_error("the graph has a cycle or reads something that nothing computes, at " + later[0]->name);
    left.swap(later);
  }
  model.order = std::move(sorted);
}
// What one graph of a file is made of.
void parse_graph(Bytes graph, Model& model) {
  for (const Field& f : fields(graph)) {
    if (f.number == field::kGraphOp) model.ops.push_back(parse_op(f.bytes));
    if (f.number == field::kGraphOutput) model.outputs.push_back(parse_edge(f.bytes.str()));
  }
  const Op* result = nullptr;
  for (const Op& op : model.ops) {
    if (op.type == "Data" || op.type == "RefData")
      model.inputs.push_back(&op);
    else if (op.type == "NetOutput")
      result = &op;
    else
      model.order.push_back(&op);
  }
  std::stable_sort(model.inputs.begin(), model.inputs.end(),
                   [](const Op* a, const Op* b) { return index_of(a) < index_of(b); });
  if (result) {
    model.outputs.clear();
    for (const Edge& edge : result->inputs)
      if (edge.output >= 0) model.outputs.push_back(edge);
  }
  sort_by_dependence(model);
}
// Gives every operator the graphs that it runs.
void bind_bodies(Model& model, const std::map<std::string, std::shared_ptr<Model>>& by_name) {
  for (Op& op : model.ops)
    for (const std::string& name : op.body_names) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) throw std::runtime_error(op.name + " runs graph " + name + ", which the file does not have");
      op.bodies.push_back(found->second);
    }
}
}  // namespace

int64_t index_of(const Op* op) {
  const auto found = op->attributes.find("index");
  return found == op->attributes.end() ? 0 : found->second.integer;
}

at::ScalarType type_of_graph(int type) {
  for (const TypeRow& row : kTypes)
    if (row.graph == type) return row.type;
  throw std::runtime_error("data type " + std::to_string(type) + " of a graph is not implemented by air-sim");
}
at::ScalarType type_of_api(int64_t type) {
  for (const TypeRow& row : kTypes)
    if (row.api == type) return row.type;
  throw std::runtime_error("ge::DataType " + std::to_string(type) + " is not implemented by air-sim");
}
int api_of_type(at::ScalarType type) {
  for (const TypeRow& row : kTypes)
    if (row.type == type) return row.api;
  throw std::runtime_error(std::string("no ge::DataType for ") + c10::toString(type));
}

int graph_of_type(at::ScalarType type) {
  for (const TypeRow& row : kTypes)
    if (row.type == type) return row.graph;
  throw std::runtime_error(std::string("no data type of a graph for ") + c10::toString(type));
}

std::shared_ptr<Model> parse_model(const void* data, size_t size) {
  auto model = std::make_shared<Model>();
  model->bytes.assign(static_cast<const char*>(data), size);
  const Bytes all{reinterpret_cast<const uint8_t*>(model->bytes.data()), size};
  std::map<std::string, std::shared_ptr<Model>> by_name;
  std::shared_ptr<Model> main;
  for (const Field& f : fields(all)) {
    if (f.number != field::kModelGraph) continue;
    const auto part = main ? std::make_shared<Model>() : model;
    main = model;
    parse_graph(f.bytes, *part);
    for (const Field& of_graph : fields(f.bytes))
      if (of_graph.number == field::kGraphName && part != main) by_name[of_graph.bytes.str()] = part;
  }
  bind_bodies(*model, by_name);
  for (const auto& [name, part] : by_name) bind_bodies(*part, by_name);
  return model;
}
}  // namespace air_sim::graph_engine
