// An operator of libatb as a kernel over tensors, and how it comes onto a stream.
#pragma once
#include "params.h"
#include "../opapi/kernels.h"
#include <functional>

namespace air_sim {
using Tensors = std::vector<Tensor>;
using AtbKernel = std::function<void(const Tensors& inputs, const Tensors& outputs)>;

// Kernels here need no memory to work in, but a buffer that callers share should not be empty.
constexpr uint64_t kWorkspace = 1024;

// Puts a kernel over tensors that are there by then on the stream of a context; `name` must outlive the process.
atb::Status launch(atb::Context* context, std::function<void()> kernel, const char* name);

// An operation that is one kernel; `name` must outlive the process.
atb::Operation* operation(const char* name, uint32_t inputs, uint32_t outputs, AtbKernel kernel);

// The kernels, by the parameters that a caller gives; what air-sim does not have raises.
AtbKernel kernel_of(const atb::infer::LinearParam& param);
AtbKernel kernel_of(const atb::infer::ElewiseParam& param);
AtbKernel kernel_of(const atb::infer::RmsNormParam& param);
AtbKernel kernel_of(const atb::infer::GroupTopkParam& param);
AtbKernel kernel_of(const atb::infer::RopeParam& param);
AtbKernel kernel_of(const atb::infer::ReshapeAndCacheParam& param);
AtbKernel kernel_of(const atb::infer::PagedAttentionParam& param);
AtbKernel kernel_of(const atb::infer::SelfAttentionParam& param);

// Tokens of one sequence from a cache in pages, [length, heads, size]. Caches are [blocks, block, heads, size], or in
// strips of 32 bytes, [blocks, heads * size / width, block, width].
Tensor from_cache(const Tensor& cache, const Tensor& table, int64_t length, int64_t heads);

// Attention over keys that are kept as one latent head and a rotated part, each in pages.
struct Latent {
  Tensor query, query_rope, cache, cache_rope, table;
  Tensor key_lengths, query_lengths, mask;  // the last two may be undefined
  double scale;
  bool free;  // a causal mask without a tensor
  Tensor out, sums;
};
void attend_latent(const Latent& latent);
}  // namespace air_sim
