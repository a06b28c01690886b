// Shapes that cannot belong together, refused before anything is launched: a call with a mistyped shape is an error in its own
// line, as it is on a device.  What a rule does not know the kernel finds out.
#include "shapes.h"

#include <c10/util/StringUtil.h>

#include <map>
#include <sstream>
#include <stdexcept>

namespace air_sim {
namespace {
using Sizes = std::vector<int64_t>;
using Names = std::vector<const char*>;

template <class... Parts>
[[noreturn]] void disagree(const Parts&... parts) {
  throw std::invalid_argument(c10::str(parts...));
}
std::string said(const Call& c, const char* name) { return c10::str(name, " of shape ", at::IntArrayRef(c.sizes(name))); }

// Whether `from` can be repeated to the shape `to`.
bool expands(const Sizes& from, const Sizes& to) {
  if (from.size() > to.size()) return false;
  for (size_t k = 1; k <= from.size(); ++k)
    if (from[from.size() - k] != to[to.size() - k] && from[from.size() - k] != 1) return false;
  return true;
}
// The number of a dimension, counted from the front; a number alone has one dimension.
int64_t wrapped(const Call& c, const char* of, size_t more = 0) {
  const int64_t rank = std::max<int64_t>(c.sizes(of).size() + more, 1), dim = c.integer("dim");
  if (dim < -rank || dim >= rank) disagree("dim is ", dim, ", which ", said(c, of), " does not have");
  return dim < 0 ? dim + rank : dim;
}

// ---------------------------------------------------------------- products of matrices
Sizes product_of(const Call& c, const char* left, const char* right) {
  Sizes a = c.sizes(left), b = c.sizes(right);
  const auto wrong = [&] { disagree(said(c, left), " cannot be multiplied by ", said(c, right)); };
  if (a.empty() || b.empty()) wrong();
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  const size_t rank = std::max(a.size(), b.size());
  a.insert(a.begin(), rank - a.size(), 1);
  b.insert(b.begin(), rank - b.size(), 1);
  if (a[rank - 1] != b[rank - 2]) wrong();
  Sizes made;
  for (size_t k = 0; k + 2 < rank; ++k) {
    if (a[k] != b[k] && a[k] != 1 && b[k] != 1) wrong();
    made.push_back(a[k] == 1 ? b[k] : a[k]);
  }
  if (!row) made.push_back(a[rank - 2]);
  if (!column) made.push_back(b[rank - 1]);
  return made;
}
void product(const Call& c, const Names& names) { product_of(c, names[0], names[1]); }
void added_product(const Call& c, const Names& names) {
  const Sizes made = product_of(c, names[0], names[1]);
  if (!expands(c.sizes("self"), made)) disagree(said(c, "self"), " cannot be added to a product of shape ", at::IntArrayRef(made));
}

// ---------------------------------------------------------------- in place
void fits(const Call& c, const Names& names) {
  for (size_t k = 1; k < names.size(); ++k)
    if (!expands(c.sizes(names[k]), c.sizes(names[0]))) disagree(said(c, names[k]), " does not fit into ", said(c, names[0]));
}

// ---------------------------------------------------------------- lists
void same(const Call& c, const Names& names) {
  const auto all = c.list_sizes(names[0]);
  for (const Sizes& one : all)
    if (one != all[0]) disagree(names[0], " have different shapes, ", at::IntArrayRef(all[0]), " and ", at::IntArrayRef(one));
}
void joined(const Call& c, const Names& names) {
  Sizes first;
  for (Sizes one : c.list_sizes(names[0])) {
    if (one == Sizes{0}) continue;  // an empty list joins anything
    const int64_t rank = one.size(), dim = c.integer("dim");
    if (dim < -rank || dim >= rank) disagree("dim is ", dim, ", which a tensor of shape ", at::IntArrayRef(one), " does not have");
    one[dim < 0 ? dim + rank : dim] = 0;
    if (first.empty()) first = one;
    if (one != first) disagree(names[0], " differ beside dimension ", dim, ": ", at::IntArrayRef(first), " and ", at::IntArrayRef(one), ", that one set to 0");
  }
}

// ---------------------------------------------------------------- indices
void within(const Call& c, const char* index, const char* of, int64_t except) {
  Sizes inner = c.sizes(index), outer = c.sizes(of);
  if (inner.empty()) inner = {1};
  if (outer.empty()) outer = {1};
  bool ok = inner.size() == outer.size();
  for (size_t k = 0; ok && k < inner.size(); ++k) ok = static_cast<int64_t>(k) == except || inner[k] <= outer[k];
  if (!ok) disagree(said(c, index), " is larger than ", said(c, of), except < 0 ? "" : c10::str(" beside dimension ", except));
}
bool is_empty(const Sizes& sizes) { return std::find(sizes.begin(), sizes.end(), 0) != sizes.end(); }
void gathered(const Call& c, const Names& names) {
  const int64_t dim = wrapped(c, "self");
  if (is_empty(c.sizes("index"))) return;
  within(c, "index", "self", dim);
  for (const char* source : names) within(c, "index", source, -1);
}
void selected(const Call& c, const Names&) {
  wrapped(c, "self");
  if (c.sizes("index").size() > 1) disagree(said(c, "index"), " is not a list of numbers");
}

// ---------------------------------------------------------------- dimensions
void dimension(const Call& c, const Names&) { wrapped(c, "self"); }
void largest(const Call& c, const Names&) {
  const Sizes& sizes = c.sizes("self");
  const int64_t dim = wrapped(c, "self"), room = sizes.empty() ? 1 : sizes[dim];
  if (c.integer("k") > room) disagree("k is ", c.integer("k"), ", and ", said(c, "self"), " has ", room, " elements in dimension ", dim);
}
void halved(const Call& c, const Names&) {
  const int64_t dim = wrapped(c, "self");
  if (c.sizes("self").empty() || c.sizes("self")[dim] % 2) disagree(said(c, "self"), " cannot be halved in dimension ", dim);
}

struct Rule {
  const char* functions;
  void (*check)(const Call&, const Names&);
  Names names;
};
const Rule kRules[] = {
    {"Mm Matmul MatmulWeightNz BatchMatMul BatchMatMulWeightNz", product, {"self", "mat2"}},
    {"Mv", product, {"self", "vec"}},
    {"Dot", product, {"self", "tensor"}},
    {"Addmm AddmmWeightNz InplaceAddmm", added_product, {"mat1", "mat2"}},
    {"Addmv", added_product, {"mat", "vec"}},
    {"Baddbmm", added_product, {"batch1", "batch2"}},
    {"InplaceAdd InplaceSub InplaceMul InplaceDiv InplaceDivMod InplaceFloorDivide InplaceFmodTensor InplaceRemainderTensorTensor InplaceAtan2 "
     "InplaceLogicalAnd InplaceLogicalOr InplaceBitwiseAndTensor InplaceBitwiseXorTensor InplaceEqTensor InplaceNeTensor InplaceGtTensor "
     "InplaceGeTensor InplaceLtTensor InplaceLeTensor",
     fits, {"self", "other"}},
    {"InplacePowTensorTensor", fits, {"self", "exponent"}},
    {"InplaceCopy", fits, {"self", "source"}},
    {"InplaceMaskedFillScalar InplaceMaskedFillTensor", fits, {"self", "mask"}},
    {"InplaceAddcmul InplaceAddcdiv", fits, {"self", "tensor1", "tensor2"}},
    {"Cat", joined, {"tensors"}},
    {"Stack", same, {"tensors"}},
    {"Gather ScatterValue InplaceScatterValue", gathered, {}},
    {"Scatter InplaceScatter ScatterAdd ScatterReduce InplaceScatterReduce", gathered, {"source"}},
    {"IndexSelect", selected, {}},
    {"Softmax LogSoftmax Cumsum Cummax Cummin Sort MaxDim MinDim", dimension, {}},
    {"Topk TopkV2", largest, {}},
    {"Glu", halved, {}},
};
using Rules = std::map<std::string, const Rule*>;
const Rules& rules() {
  static const Rules& all = [] () -> const Rules& {
    Rules& made = *new Rules;
    for (const Rule& rule : kRules) {
      std::istringstream names(rule.functions);
      for (std::string name; names >> name;) made["aclnn" + name] = &rule;
    }
    return made;
  }();
  return all;
}
}  // namespace

ShapeCheck shape_check(const std::string& name) {
  const auto found = rules().find(name);
  if (found == rules().end()) return nullptr;
  const Rule* rule = found->second;
  return [rule](const Call& call) { rule->check(call, rule->names); };
}
}  // namespace air_sim
