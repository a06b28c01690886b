// Caches in pages, and positions: what is written beside attention.
#include "operation.h"

namespace air_sim {
namespace {
using atb::infer::ReshapeAndCacheParam;

// Rows [tokens, heads, size] into their slots; a slot below 0 is left out.
void write_slots(const Tensor& rows, const Tensor& cache, const Tensor& slots) {
  const Tensor places = slots.to(at::kLong).reshape({-1});
  const bool strips = cache.size(-1) * cache.size(-2) != rows[0].numel();
  for (int64_t token = 0; token < places.size(0); ++token) {
    const int64_t slot = places[token].item<int64_t>();
    if (slot < 0) continue;
    const Tensor row = rows.select(0, token).reshape({-1});
    const int64_t block = cache.size(strips ? 2 : 1);
    const Tensor page = cache.select(0, slot / block);
    const Tensor place = page.select(strips ? 1 : 0, slot % block);
    place.copy_(row.reshape(place.sizes()));
  }
}
}  // namespace

Tensor from_cache(const Tensor& cache, const Tensor& table, int64_t length, int64_t heads) {
  Tensor pages = cache;
  if (cache.dim() == 4 && cache.size(2) != heads) {  // in strips
    TORCH_CHECK(cache.size(1) * cache.size(3) % heads == 0, "a cache of shape ", cache.sizes(), " does not have ", heads, " heads");
    pages = cache.permute({0, 2, 1, 3}).reshape({cache.size(0), cache.size(2), heads, -1});
  }
  const int64_t block = pages.size(1);
  const Tensor blocks = table.to(at::kLong).narrow(0, 0, (length + block - 1) / block);
  return pages.index_select(0, blocks).flatten(0, 1).narrow(0, 0, length);
}

AtbKernel kernel_of(const ReshapeAndCacheParam& param) {
  TORCH_CHECK(param.compression == 0, "ReshapeAndCacheParam: air-sim does not compress caches");
  if (param.caches == ReshapeAndCacheParam::kKeysAlone)
    return [](const Tensors& in, const Tensors& out) { write_slots(in[0], out[0], in[2]); };
  return [](const Tensors& in, const Tensors& out) {
    write_slots(in[0], out[0], in[4]);
    write_slots(in[1], out[1], in[4]);
  };
}

// Each head in stretches of 2 * size / coefficient, of which the second half is turned against the first.
AtbKernel kernel_of(const atb::infer::RopeParam& param) {
  TORCH_CHECK(param.cosine_format == 0, "RopeParam: air-sim has cosines for inference only");
  return [coefficient = param.coefficient](const Tensors& in, const Tensors& out) {
    const Tensor cosine = in[2].to(at::kFloat).unsqueeze(1), sine = in[3].to(at::kFloat).unsqueeze(1);
    const int64_t size = cosine.size(-1), stretch = 2 * size / coefficient;
    for (size_t i = 0; i < 2; ++i) {
      const Tensor x = in[i].to(at::kFloat).reshape({cosine.size(0), -1, size});
      const Tensor halves = x.reshape({x.size(0), x.size(1), size / stretch, 2, stretch / 2});
      const Tensor turned = at::stack({-halves.select(3, 1), halves.select(3, 0)}, 3).reshape(x.sizes());
      out[i].copy_((x * cosine + turned * sine).reshape(out[i].sizes()));
    }
  };
}
}  // namespace air_sim
