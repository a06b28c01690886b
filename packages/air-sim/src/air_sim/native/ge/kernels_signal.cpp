// Fourier transforms along the last axis, and columns of sliding windows to images.
#include "kernels.h"

namespace air_sim::graph_engine {
namespace {
Tensor columns_to_image(const Call& c) {
  return at::col2im(c.in[0], c.values(1), c.ints("kernel_size"), c.ints("dilation"), c.ints("padding"), c.ints("stride"));
}
}  // namespace

void add_signal(Table& table) {
  AIR_SIM_GE_OP(FFT, at::fft_fft(x[0]));
  AIR_SIM_GE_OP(IFFT, at::fft_ifft(x[0]));
  AIR_SIM_GE_OP(RFFT, at::fft_rfft(x[0], c.value(1)));
  AIR_SIM_GE_OP(IRFFT, at::fft_irfft(x[0], c.value(1)));
  AIR_SIM_GE_OP(Col2im, columns_to_image(c));
}
}  // namespace air_sim::graph_engine
