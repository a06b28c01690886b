// Operators of libatb with functions of their own: AtbXGetWorkspaceSize prepares an operation, AtbX runs it.
#include "operation.h"

namespace air_sim {
namespace {
// An operation whose tensors were given when it was prepared. A caller keeps it, and prepares it again for each call.
class Prepared : public atb::Operation {
 public:
  explicit Prepared(const char* name) : name_(name) {}
  std::function<void()> kernel;

  std::string GetName() const override { return name_; }
  atb::Status InferShape(const atb::SVector<atb::TensorDesc>&, atb::SVector<atb::TensorDesc>&) const override { return ACL_ERROR_INTERNAL_ERROR; }
  uint32_t GetInputNum() const override { return 0; }
  uint32_t GetOutputNum() const override { return 0; }
  atb::Status Setup(const atb::VariantPack&, uint64_t&, atb::Context*) override { return 0; }
  atb::Status Execute(const atb::VariantPack&, uint8_t*, uint64_t, atb::Context* context) override {
    return launch(context, kernel, name_);
  }

 private:
  const char* name_;
};

// A tensor of a call, kept until its kernel has run; one on the host is read now.
class Argument {
 public:
  explicit Argument(const aclTensor* tensor, bool on_host = false) : tensor_(tensor) {
    if (!tensor) return;
    retain(tensor);
    if (on_host) host_ = tensor_of(tensor).clone();
  }
  Argument(const Argument& other) : tensor_(other.tensor_), host_(other.host_) {
    if (tensor_) retain(tensor_);
  }
  Argument& operator=(const Argument&) = delete;
  ~Argument() {
    if (tensor_) release(tensor_);
  }
  Tensor now() const { return host_.defined() || !tensor_ ? host_ : tensor_of(tensor_); }

 private:
  const aclTensor* tensor_;
  Tensor host_;
};

int prepare(const char* name, std::function<void()> kernel, uint64_t* workspace, atb::Operation** operation) {
  if (!*operation) *operation = new Prepared(name);
  static_cast<Prepared*>(*operation)->kernel = std::move(kernel);
  *workspace = kWorkspace;
  return 0;
}

int run(void* workspace, uint64_t size, atb::Operation* operation, atb::Context* context) {
  return operation->Execute({}, static_cast<uint8_t*>(workspace), size, context);
}

// Rows of each sequence one after the other; a sequence begins with the block that holds its start, where `starts` says it.
void load_pages(const Tensor& cache, const Tensor& table, const Tensor& ends, const Tensor& starts, bool summed, const Tensor& out) {
  const Tensor lengths = (summed ? ends.to(at::kLong).diff() : ends.to(at::kLong)).contiguous();
  int64_t first = 0;
  for (int64_t i = 0; i < lengths.numel(); ++i) {
    const int64_t length = lengths[i].item<int64_t>(), start = starts.defined() ? starts[i].item<int64_t>() : 0;
    const int64_t block = cache.size(cache.size(2) == out.size(1) ? 1 : 2), skipped = start / block;
    const Tensor own = table[i].narrow(0, skipped, table.size(1) - skipped);
    out.narrow(0, first, length).copy_(from_cache(cache, own, length, out.size(1)));
    first += length;
  }
}
}  // namespace
}  // namespace air_sim

using air_sim::Argument;

AIR_SIM_API int AtbMLAGetWorkspaceSize(const aclTensor* query, const aclTensor* query_rope, const aclTensor* cache, const aclTensor* cache_rope,
                                       const aclTensor* table, const aclTensor* key_lengths, const aclTensor* mask, const aclTensor* query_lengths,
                                       const aclTensor* descale, const aclTensor*, int64_t, float scale, int64_t, int mask_type, int, int,
                                       const aclTensor* out, const aclTensor* sums, uint64_t* workspace, atb::Operation** operation,
                                       atb::Context*) {
  AIR_SIM_ENTRY;
  if (descale) {
    air_sim::set_error("AtbMLA: air-sim does not have caches in int8");
    return ACL_ERROR_INVALID_PARAM;
  }
  const Argument q(query), qr(query_rope), c(cache), cr(cache_rope), t(table), k(key_lengths, true), m(mask), s(query_lengths, true), o(out), l(sums);
  auto kernel = [=] {
    air_sim::attend_latent({q.now(), qr.now(), c.now(), cr.now(), t.now(), k.now(), s.now(), m.now(), scale, mask_type == 2, o.now(), l.now()});
  };
  return air_sim::prepare("AtbMLA", kernel, workspace, operation);
}
AIR_SIM_API int AtbMLA(void* workspace, uint64_t size, atb::Operation* operation, atb::Context* context) {
  AIR_SIM_ENTRY;
  return air_sim::run(workspace, size, operation, context);
}

AIR_SIM_API int AtbPagedCacheLoadGetWorkspaceSize(const aclTensor* keys, const aclTensor* values, const aclTensor* table, const aclTensor* lengths,
                                                  const aclTensor* key, const aclTensor* value, const aclTensor* starts, int8_t, bool summed, bool,
                                                  uint64_t* workspace, atb::Operation** operation, atb::Context*) {
  AIR_SIM_ENTRY;
  const Argument k(keys), v(values), t(table), n(lengths), ko(key), vo(value), s(starts);
  auto kernel = [=] {
    air_sim::load_pages(k.now(), t.now(), n.now(), s.now(), summed, ko.now());
    air_sim::load_pages(v.now(), t.now(), n.now(), s.now(), summed, vo.now());
  };
  return air_sim::prepare("AtbPagedCacheLoad", kernel, workspace, operation);
}
AIR_SIM_API int AtbPagedCacheLoad(void* workspace, uint64_t size, atb::Operation* operation, atb::Context* context) {
  AIR_SIM_ENTRY;
  return air_sim::run(workspace, size, operation, context);
}
