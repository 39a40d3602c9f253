#include "tests/nets/onnx/reference_windows.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace neap::testing::reference {
namespace {

// Rounded up, a window that would begin behind the image is left out.
int64_t Windows(int64_t size, int64_t kernel, int64_t stride, int64_t before, int64_t after,
                int64_t dilation, bool ceil) {
  const int64_t slack = size + before + after - dilation * (kernel - 1) - 1;
  if (!ceil) return slack / stride + 1;
  const int64_t last = (slack + stride - 1) / stride;
  return last * stride < size + before ? last + 1 : last;
}

}  // namespace

T Conv(const Run& run) {
  const T& x = run.in[0];
  const T& weight = run.in[1];
  const Dims stride = run.Ints("strides", {1, 1});
  const Dims dilation = run.Ints("dilations", {1, 1});
  const Dims pads = run.Ints("pads", {0, 0, 0, 0});
  const int64_t groups = run.Int("group", 1);
  const int64_t kh = weight.dims[2];
  const int64_t kw = weight.dims[3];
  T y = Zeros({x.dims[0], weight.dims[0],
               Windows(x.dims[2], kh, stride[0], pads[0], pads[2], dilation[0], false),
               Windows(x.dims[3], kw, stride[1], pads[1], pads[3], dilation[1], false)});
  Each(y, [&](int64_t n, int64_t o, int64_t h, int64_t w) {
    double sum = run.in.size() > 2 ? run.in[2].values[static_cast<size_t>(o)] : 0;
    const int64_t first = o / (weight.dims[0] / groups) * weight.dims[1];
    for (int64_t c = 0; c < weight.dims[1]; ++c)
      for (int64_t i = 0; i < kh; ++i)
        for (int64_t j = 0; j < kw; ++j) {
          const int64_t row = h * stride[0] - pads[0] + i * dilation[0];
          const int64_t column = w * stride[1] - pads[1] + j * dilation[1];
          if (Inside(x, row, column))
            sum += At(x, n, first + c, row, column) * At(weight, o, c, i, j);
        }
    At(y, n, o, h, w) = sum;
  });
  return y;
}

T ConvTranspose(const Run& run) {
  const T& x = run.in[0];
  const T& weight = run.in[1];
  const Dims stride = run.Ints("strides", {1, 1});
  const Dims pads = run.Ints("pads", {0, 0, 0, 0});
  const int64_t kh = weight.dims[2];
  const int64_t kw = weight.dims[3];
  const Dims more = run.Ints("output_padding", {0, 0});
  T y = Zeros({x.dims[0], weight.dims[1],
               (x.dims[2] - 1) * stride[0] + kh - pads[0] - pads[2] + more[0],
               (x.dims[3] - 1) * stride[1] + kw - pads[1] - pads[3] + more[1]});
  if (run.in.size() > 2) {
    Each(y, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
      At(y, n, c, h, w) = run.in[2].values[static_cast<size_t>(c)];
    });
  }
  Each(x, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    for (int64_t o = 0; o < weight.dims[1]; ++o)
      for (int64_t i = 0; i < kh; ++i)
        for (int64_t j = 0; j < kw; ++j) {
          const int64_t row = h * stride[0] + i - pads[0];
          const int64_t column = w * stride[1] + j - pads[1];
          if (Inside(y, row, column))
            At(y, n, o, row, column) += At(x, n, c, h, w) * At(weight, c, o, i, j);
        }
  });
  return y;
}

T Pool(const Run& run, bool max) {
  const T& x = run.in[0];
  const Dims kernel = run.Ints("kernel_shape", {});
  const Dims stride = run.Ints("strides", {1, 1});
  const Dims pads = run.Ints("pads", {0, 0, 0, 0});
  const Dims dilation = run.Ints("dilations", {1, 1});
  const bool ceil = run.Int("ceil_mode", 0) != 0;
  const bool count_padding = run.Int("count_include_pad", 0) != 0;
  T y = Zeros({x.dims[0], x.dims[1],
               Windows(x.dims[2], kernel[0], stride[0], pads[0], pads[2], dilation[0], ceil),
               Windows(x.dims[3], kernel[1], stride[1], pads[1], pads[3], dilation[1], ceil)});
  Each(y, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    double largest = -std::numeric_limits<double>::infinity();
    double sum = 0;
    double count = 0;
    for (int64_t i = 0; i < kernel[0]; ++i)
      for (int64_t j = 0; j < kernel[1]; ++j) {
        const int64_t row = h * stride[0] - pads[0] + i * dilation[0];
        const int64_t column = w * stride[1] - pads[1] + j * dilation[1];
        if (Inside(x, row, column)) {
          largest = std::max(largest, At(x, n, c, row, column));
          sum += At(x, n, c, row, column);
        }
        const bool in_padded = row < x.dims[2] + pads[2] && column < x.dims[3] + pads[3];
        if (count_padding ? in_padded : Inside(x, row, column)) count += 1;
      }
    At(y, n, c, h, w) = max ? largest : sum / count;
  });
  return y;
}

}  // namespace neap::testing::reference
