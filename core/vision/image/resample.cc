#include "neap/core/vision/image/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace neap {
namespace {

// The channels of a pixel, in one register of every processor that has registers of 16 bytes.
using Pixel = float __attribute__((vector_size(16)));

// Sums of rows, weighted; the rows lie `stride` bytes apart. Values are added in the order of the
// rows, two rows at a time.
void BlendRows(const uint8_t* rows, int64_t stride, absl::Span<const float> weights, int64_t values,
               float* sums) {
  const size_t odd = weights.size() % 2;
  if (odd == 1) {
    const float weight = weights[0];
    for (int64_t i = 0; i < values; ++i) sums[i] = weight * static_cast<float>(rows[i]);
    rows += stride;
  } else {
    std::fill_n(sums, values, 0.0F);
  }
  for (size_t k = odd; k < weights.size(); k += 2, rows += 2 * stride) {
    const uint8_t* const next = rows + stride;
    const float a = weights[k], b = weights[k + 1];
    for (int64_t i = 0; i < values; ++i)
      sums[i] = (sums[i] + a * static_cast<float>(rows[i])) + b * static_cast<float>(next[i]);
  }
}

// The weights of the columns, as many for each output: at the end some are 0, so that no branch
// depends on the output.
struct EvenTaps {
  explicit EvenTaps(const Taps& taps) {
    for (int64_t x = 0; x < taps.outputs(); ++x)
      count = std::max(count, static_cast<int64_t>(taps.weights(x).size()));
    weights.resize(static_cast<size_t>(taps.outputs() * count));
    for (int64_t x = 0; x < taps.outputs(); ++x)
      std::copy(taps.weights(x).begin(), taps.weights(x).end(), weights.begin() + x * count);
  }

  int64_t count = 0;
  std::vector<float> weights;
};

// Four pixels of a row to the planes of red, green and blue.
void StoreFour(const Pixel* pixels, int64_t plane, float* to) {
  const Pixel red_green_a = __builtin_shufflevector(pixels[0], pixels[1], 0, 4, 1, 5);
  const Pixel red_green_b = __builtin_shufflevector(pixels[2], pixels[3], 0, 4, 1, 5);
  const Pixel blue_a = __builtin_shufflevector(pixels[0], pixels[1], 2, 6, 3, 7);
  const Pixel blue_b = __builtin_shufflevector(pixels[2], pixels[3], 2, 6, 3, 7);
  const Pixel red = __builtin_shufflevector(red_green_a, red_green_b, 0, 1, 4, 5);
  const Pixel green = __builtin_shufflevector(red_green_a, red_green_b, 2, 3, 6, 7);
  const Pixel blue = __builtin_shufflevector(blue_a, blue_b, 0, 1, 4, 5);
  std::memcpy(to, &red, sizeof red);
  std::memcpy(to + plane, &green, sizeof green);
  std::memcpy(to + 2 * plane, &blue, sizeof blue);
}

// One row of the result, of which `to` is the red one.
struct RowOutput {
  const Taps& columns;
  const EvenTaps& even;
  Pixel factor;
  Pixel shift;
  int64_t plane;

  // Writes with `kCount` weights for each output; 0 stands for any number.
  template <int64_t kCount>
  void Write(const Pixel* blended, float* to) const {
    const auto output = [&](int64_t x) {
      const int64_t count = kCount == 0 ? even.count : kCount;
      const Pixel* const pixels = blended + (columns.first(x) - columns.begin());
      const float* const weights = even.weights.data() + x * count;
      Pixel sum = weights[0] * pixels[0];
      for (int64_t k = 1; k < count; ++k) sum += weights[k] * pixels[k];
      return sum * factor - shift;
    };
    int64_t x = 0;
    for (; x + 4 <= columns.outputs(); x += 4) {
      const std::array<Pixel, 4> four = {output(x), output(x + 1), output(x + 2), output(x + 3)};
      StoreFour(four.data(), plane, to + x);
    }
    for (; x < columns.outputs(); ++x) {
      const Pixel pixel = output(x);
      for (int64_t c = 0; c < 3; ++c) to[c * plane + x] = pixel[c];
    }
  }

  void Write(const Pixel* blended, float* to) const {
    switch (even.count) {  // the counts of reductions up to 2.5
      case 2:
        return Write<2>(blended, to);
      case 3:
        return Write<3>(blended, to);
      case 4:
        return Write<4>(blended, to);
      case 5:
        return Write<5>(blended, to);
      default:
        return Write<0>(blended, to);
    }
  }
};

}  // namespace

Taps::Taps(const Axis& axis) {
  const double step = axis.extent / static_cast<double>(axis.outputs);
  const double radius = std::max(step, 1.0);
  for (int64_t i = 0; i < axis.outputs; ++i) {
    const int64_t output = axis.mirrored ? axis.outputs - 1 - i : i;
    const double centre = axis.begin + (static_cast<double>(output) + 0.5) * step;
    const auto first =
        std::max(axis.clip_begin, static_cast<int64_t>(std::floor(centre - radius + 0.5)));
    const auto end = std::clamp(static_cast<int64_t>(std::floor(centre + radius + 0.5)), first + 1,
                                std::max(axis.clip_end, first + 1));
    double sum = 0;
    const auto weight = [&](int64_t pixel) {
      const double distance = std::abs(static_cast<double>(pixel) + 0.5 - centre) / radius;
      return std::max(0.0, 1 - distance);
    };
    for (int64_t pixel = first; pixel < end; ++pixel) sum += weight(pixel);
    for (int64_t pixel = first; pixel < end; ++pixel)
      weights_.push_back(static_cast<float>(weight(pixel) / sum));
    firsts_.push_back(first);
    ends_.push_back(weights_.size());
    begin_ = std::min(begin_, first);
    end_ = std::max(end_, end);
  }
}

absl::Span<const float> Taps::weights(int64_t output) const {
  const auto i = static_cast<size_t>(output);
  const size_t begin = i == 0 ? 0 : ends_[i - 1];
  return {weights_.data() + begin, ends_[i] - begin};
}

void Resample(const DecodedPart& from, const Taps& rows, const Taps& columns,
              const ByteScale& scale, float* planes) {
  const Pixel factor = {scale.factor[0], scale.factor[1], scale.factor[2], 0};
  const Pixel shift = {scale.shift[0], scale.shift[1], scale.shift[2], 0};
  const int64_t plane = rows.outputs() * columns.outputs();
  const EvenTaps taps(columns);
  const int64_t width = columns.end() - columns.begin();
  std::vector<Pixel> blended(static_cast<size_t>(width + taps.count));  // the last have no weight
  const RowOutput output = {columns, taps, factor, shift, plane};
  for (int64_t y = 0; y < rows.outputs(); ++y) {
    BlendRows(from.Row(rows.first(y)) + 4 * (columns.begin() - from.box.left), 4 * from.box.width(),
              rows.weights(y), 4 * width, reinterpret_cast<float*>(blended.data()));
    output.Write(blended.data(), planes + y * columns.outputs());
  }
}

}  // namespace neap
