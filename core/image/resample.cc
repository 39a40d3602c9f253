#include "neap/core/image/resample.h"

#include <algorithm>
#include <cmath>

namespace neap {
namespace {

// The channels of a pixel, in one register of every processor that has registers of 16 bytes.
using Pixel = float __attribute__((vector_size(16)));

// Adds up the rows of an output, weighted. Values are added in the order of the rows.
void BlendRows(const DecodedPart& from, int64_t first_row, absl::Span<const float> weights,
               int64_t left, std::vector<Pixel>& sums) {
  const auto values = static_cast<int64_t>(4 * sums.size());
  float* const sum = reinterpret_cast<float*>(sums.data());
  std::fill_n(sum, values, 0.0F);
  for (const float weight : weights) {
    const uint8_t* const row = from.Row(first_row++) + 4 * (left - from.box.left);
    for (int64_t i = 0; i < values; ++i) sum[i] += weight * static_cast<float>(row[i]);
  }
}

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
  std::vector<Pixel> blended(static_cast<size_t>(columns.end() - columns.begin()));
  for (int64_t y = 0; y < rows.outputs(); ++y) {
    BlendRows(from, rows.first(y), rows.weights(y), columns.begin(), blended);
    for (int64_t x = 0; x < columns.outputs(); ++x) {
      const Pixel* pixel = blended.data() + (columns.first(x) - columns.begin());
      Pixel sum = {};
      for (const float weight : columns.weights(x)) sum += weight * *pixel++;
      sum = sum * factor - shift;
      float* const to = planes + y * columns.outputs() + x;
      for (int64_t c = 0; c < 3; ++c) to[c * plane] = sum[c];
    }
  }
}

}  // namespace neap
