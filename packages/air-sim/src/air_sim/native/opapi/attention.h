// Attention as the documentation of the fused operators states it, step by step in plain ATen.
#pragma once
#include "kernels.h"

namespace air_sim {
// Which keys a query may not see, beside an explicit mask.
struct Visibility {
  int64_t sparse_mode = 0;
  int64_t before = INT32_MAX, after = INT32_MAX;  // tokens before and after the diagonal that remain visible
  std::vector<int64_t> prefix;                    // modes 5 and 6: keys that every query of a batch sees
};

struct Attention {
  Tensor query, key, value;  // [B, N, S, D]; keys and values may have fewer heads
  Tensor mask;               // bool, true is hidden; any shape that the forms below allow
  Tensor position;           // pse
  Tensor sink;               // [N]
  Tensor keep;               // bool, from the dropout mask, [B, N, Sq, Sk]
  double scale = 1, keep_probability = 1;
  int64_t position_type = 1, query_start = 0, key_start = 0;
  Visibility visible;
};

struct AttentionResult {
  Tensor out, maximum, sum;  // maximum and sum: [B, N, Sq, 1], float
};
AttentionResult attend(const Attention& a);

struct AttentionGradient {
  Tensor query, key, value, position, sink;
};
AttentionGradient attend_backward(const Attention& a, const Tensor& grad_out);

// Layouts by name: BSH, SBH, BSND, BNSD, NBSD.  `heads` splits H.
Tensor to_bnsd(const Tensor& x, const std::string& layout, int64_t heads);
Tensor from_bnsd(const Tensor& x, const std::string& layout);

// A mask of any documented shape (SS, B1SS, BNSS, 11SS, BS) as one that broadcasts over [B, N, Sq, Sk].
Tensor spread_mask(const Tensor& mask, int64_t queries, int64_t keys);

// One batch of a packed sequence: the rows between two cumulative lengths.
Tensor rows_of_batch(const Tensor& packed, const std::vector<int64_t>& ends, size_t batch);
// Bits of a dropout mask from a position on.
Tensor unpack_bits(const Tensor& packed, at::IntArrayRef shape, int64_t first = 0);
}  // namespace air_sim
