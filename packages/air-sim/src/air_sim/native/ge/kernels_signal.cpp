// Fourier transforms along the last axis, columns put back into images, images in another size, and running sums.
#include "kernels.h"

namespace air_sim::graph_engine {
namespace {
// The columns of windows, added up where they lie in an image.
// The elements of a window are an axis of their own, after the channels.
Tensor columns_to_image(const Call& c) {
  TORCH_CHECK(c.in[0].dim() == 4, "Col2im takes x with 4 dims, got ", c.in[0].sizes());
  return at::col2im(c.in[0].flatten(1, 2), c.values(1), c.ints("kernel_size"), c.ints("dilation"), c.ints("padding"), c.ints("stride"));
}
// Corners lie upon corners, or pixels have their centre half a pixel inside; other rules are not those of libtorch.
Tensor resize_bilinear(const Call& c) {
  const bool corners = c.integer("align_corners") != 0, centres = c.integer("half_pixel_centers") != 0;
  TORCH_CHECK(corners != centres, "exactly one of align_corners and half_pixel_centers is implemented by air-sim");
  return at::upsample_bilinear2d(c.in[0], c.values(1), corners);
}
Tensor running_logsumexp(const Call& c) {
  TORCH_CHECK(!c.integer("exclusive") && !c.integer("reverse"), "exclusive and reverse are not implemented by air-sim");
  return at::logcumsumexp(c.in[0], c.value(1));
}
}  // namespace

void add_signal(Table& table) {
  AIR_SIM_GE_OP(FFT, at::fft_fft(x[0]));
  AIR_SIM_GE_OP(IFFT, at::fft_ifft(x[0]));
  AIR_SIM_GE_OP(RFFT, at::fft_rfft(x[0], c.value(1)));
  AIR_SIM_GE_OP(IRFFT, at::fft_irfft(x[0], c.value(1)));
  AIR_SIM_GE_OP(Col2im, columns_to_image(c));
  AIR_SIM_GE_OP(ResizeBilinearV2, resize_bilinear(c));
  AIR_SIM_GE_OP(MaskedScatter, at::masked_scatter(x[0], x[1], x[2]));
  AIR_SIM_GE_OP(Pdist, at::pdist(x[0], c.real("p", 2.0)));
  AIR_SIM_GE_OP(CumulativeLogsumexp, running_logsumexp(c));
}
}  // namespace air_sim::graph_engine
