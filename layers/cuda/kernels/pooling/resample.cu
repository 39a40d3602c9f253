// Weighted sums of ranges of elements along three axes: interpolation, its gradient, and adaptive
// average pooling.
//
// A thread owns one place {d, h, w, channel} of the result in all images, so it computes ranges and
// weights once for many elements:
//
//   images    0  1  2  3 ...      y of the grid divides them among threads
//   thread i  *--*--*--*-->       consecutive threads write consecutive elements
//
// Images are those of the batch, or planes in channels-first; in channels-last, also parts of the
// channels, so that few images are enough. If no range is longer than kHeld, weights are in
// registers, and the loads of a row overlap.
#include <algorithm>
#include <array>
#include <type_traits>

#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/pooling/resample.h"

namespace neap::kernels {
namespace {

// One axis in one direction: what the result has, and what is read.
template <typename Int>
struct AxisGather {
  using Index = std::make_unsigned_t<Int>;
  ResampleAxis<Int> axis;
  bool backward;
  Divider<Index> unit, step;  // by those of the axis
  Divider<Index> result;      // by the number of elements of the result
  Index read;                 // number of elements that are read

  __device__ __forceinline__ IndexRange<Int> RangeOf(Int at) const {
    return backward ? axis.Outputs(at, By{step}) : axis.Inputs(at, By{unit});
  }
  // That of `from`, which is in `range`, RangeOf(at).
  __device__ __forceinline__ float WeightIn(const IndexRange<Int>& range, Int at, Int from) const {
    if (backward) return axis.Weight(from, at, By{unit});
    const bool is_mean = axis.kind == Resampling::kAverage;
    return is_mean ? axis.MeanWeight(range) : axis.Weight(at, from, By{unit});
  }

 private:
  struct By {
    const Divider<Index>& divider;
    __device__ __forceinline__ Int operator()(Int n) const {
      Index rest = 0;
      return static_cast<Int>(divider.Split(static_cast<Index>(n), rest));
    }
  };
};

template <typename Int>
struct ImageGather {
  using Index = std::make_unsigned_t<Int>;
  AxisGather<Int> axes[kMaxSpatialAxes];
  Divider<Index> channels;  // of a part, in vectors
  Divider<Index> parts;     // of the channels of an image
  Index places;             // of the result, in a part of an image
  Index images;             // with their parts

  // In vectors, of the result or of what is read.
  __device__ __forceinline__ size_t PixelStride() const {
    return static_cast<size_t>(channels.divisor) * parts.divisor;
  }
};

// A range with its weights.
template <typename Int, int kHeld>
struct HeldRange {
  Int first, count;
  float weights[kHeld];

  __device__ __forceinline__ HeldRange(const AxisGather<Int>& axis, Int at) {
    const IndexRange<Int> range = axis.RangeOf(at);
    first = range.first;
    count = range.last - range.first;
#pragma unroll
    for (int k = 0; k < kHeld; ++k)
      weights[k] = k < count ? axis.WeightIn(range, at, first + k) : 0.0F;
  }
  // weights[k] without memory, where k is known when it runs.
  __device__ __forceinline__ float WeightAt(int k) const {
    float weight = weights[0];
#pragma unroll
    for (int other = 1; other < kHeld; ++other) weight = k == other ? weights[other] : weight;
    return weight;
  }
};

// One element of the result, whose image begins at `from`. Loops over more than two rows are not
// unrolled, because the weights of all of them would be too many registers.
template <int kHeld, int kVec, typename T>
__device__ __forceinline__ Vec<kVec> SumHeld(const ImageGather<int32_t>& g,
                                             const HeldRange<int32_t, kHeld>& depth,
                                             const HeldRange<int32_t, kHeld>& height,
                                             const HeldRange<int32_t, kHeld>& width,
                                             const T* from) {
  constexpr int kRows = kHeld <= 2 ? kHeld : 1;
  const size_t pixel = g.PixelStride();
  Vec<kVec> sum = {};
#pragma unroll kRows
  for (int d = 0; d < kHeld; ++d) {
    if (d >= depth.count) break;
#pragma unroll kRows
    for (int h = 0; h < kHeld; ++h) {
      if (h >= height.count) break;
      const uint32_t row = static_cast<uint32_t>(depth.first + d) * g.axes[1].read +
                           static_cast<uint32_t>(height.first + h);
      const uint32_t first = row * g.axes[2].read + static_cast<uint32_t>(width.first);
      const float weight = depth.WeightAt(d) * height.WeightAt(h);
      Packed<T, kVec> loaded[kHeld];
#pragma unroll
      for (int w = 0; w < kHeld; ++w) {
        if (w < width.count) loaded[w] = Read<kVec>(from, (first + w) * pixel);
      }
#pragma unroll
      for (int w = 0; w < kHeld; ++w) {
        if (w >= width.count) break;
        const float factor = weight * width.weights[w];
        const Vec<kVec> v = Unpack(loaded[w]);
#pragma unroll
        for (int k = 0; k < kVec; ++k) sum.v[k] = fmaf(factor, v.v[k], sum.v[k]);
      }
    }
  }
  return sum;
}

// The same for ranges of any length.
template <int kVec, typename Int, typename T>
__device__ __forceinline__ Vec<kVec> SumRanges(const ImageGather<Int>& g,
                                               const Int (&at)[kMaxSpatialAxes],
                                               const IndexRange<Int> (&ranges)[kMaxSpatialAxes],
                                               const T* from) {
  const size_t pixel = g.PixelStride();
  Vec<kVec> sum = {};
  for (Int d = ranges[0].first; d < ranges[0].last; ++d) {
    const float of_depth = g.axes[0].WeightIn(ranges[0], at[0], d);
    for (Int h = ranges[1].first; h < ranges[1].last; ++h) {
      const float weight = of_depth * g.axes[1].WeightIn(ranges[1], at[1], h);
      const size_t row = (static_cast<size_t>(d) * g.axes[1].read + h) * g.axes[2].read;
      for (Int w = ranges[2].first; w < ranges[2].last; ++w) {
        const float factor = weight * g.axes[2].WeightIn(ranges[2], at[2], w);
        const Vec<kVec> v = Unpack(Read<kVec>(from, (row + w) * pixel));
#pragma unroll
        for (int k = 0; k < kVec; ++k) sum.v[k] = fmaf(factor, v.v[k], sum.v[k]);
      }
    }
  }
  return sum;
}

// kHeld is 0 for ranges of any length.
template <int kHeld, int kVec, typename Int, typename T>
__global__ void __launch_bounds__(kThreads)
    ResampleKernel(ImageGather<Int> g, const T* __restrict__ from, T* __restrict__ to) {
  using Index = std::make_unsigned_t<Int>;
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= g.places) return;
  Index channel = 0, w = 0, h = 0;
  Index rest = g.axes[2].result.Split(g.channels.Split(i, channel), w);
  const Index d = g.axes[1].result.Split(rest, h);
  const Int at[kMaxSpatialAxes] = {static_cast<Int>(d), static_cast<Int>(h), static_cast<Int>(w)};
  const size_t pixel = g.PixelStride();
  const size_t read = static_cast<size_t>(g.axes[0].read) * g.axes[1].read * g.axes[2].read * pixel;
  const size_t written = static_cast<size_t>(g.places) * g.parts.divisor;
  const size_t place = static_cast<size_t>(i - channel) * g.parts.divisor;  // of its pixel
  const auto for_each_image = [&](const auto& sum) {
    for (Index n = blockIdx.y; n < g.images; n += gridDim.y) {
      Index part = 0;
      const size_t image = g.parts.Split(n, part);
      const size_t first = static_cast<size_t>(part) * g.channels.divisor + channel;
      const T* const begin = from + (image * read + first) * kVec;
      Write<kVec>(to, image * written + place + first, sum(begin));
    }
  };
  if constexpr (kHeld > 0) {
    const HeldRange<Int, kHeld> depth(g.axes[0], at[0]), height(g.axes[1], at[1]),
        width(g.axes[2], at[2]);
    for_each_image(
        [&](const T* begin) { return SumHeld<kHeld, kVec>(g, depth, height, width, begin); });
  } else {
    const IndexRange<Int> ranges[] = {g.axes[0].RangeOf(at[0]), g.axes[1].RangeOf(at[1]),
                                      g.axes[2].RangeOf(at[2])};
    for_each_image([&](const T* begin) { return SumRanges<kVec>(g, at, ranges, begin); });
  }
}

int64_t ReadBy(const ResampleAxis<int64_t>& axis, bool backward) {
  return backward ? axis.out : axis.in;
}
int64_t WrittenBy(const ResampleAxis<int64_t>& axis, bool backward) {
  return backward ? axis.in : axis.out;
}

// The parts that the channels are divided into. They are halved as long as they have 128 bytes,
// which is a line of the cache.
int64_t ChannelPartsOf(int64_t vectors, int64_t vector_bytes) {
  constexpr int64_t kMinBytes = 128;
  int64_t parts = 1;
  while (vectors / parts % 2 == 0 && vectors / parts * vector_bytes >= 2 * kMinBytes) parts *= 2;
  return parts;
}

template <typename Int>
AxisGather<Int> GatherOf(const ResampleAxis<int64_t>& axis, bool backward) {
  using Index = std::make_unsigned_t<Int>;
  const auto narrowed = [&] {
    if constexpr (std::is_same_v<Int, int64_t>) {
      return axis;
    } else {
      return In32(axis);
    }
  };
  return {narrowed(),
          backward,
          Divider<Index>(axis.unit),
          Divider<Index>(axis.step),
          Divider<Index>(WrittenBy(axis, backward)),
          static_cast<Index>(ReadBy(axis, backward))};
}

template <int kHeld, int kVec, typename Int, typename T>
cudaError_t LaunchResample(const ResampleShape& s, int64_t parts, const T* from, T* to,
                           cudaStream_t stream) {
  using Index = std::make_unsigned_t<Int>;
  constexpr int64_t kMaxRows = 65535, kManyBlocks = 4096;
  const int64_t vectors = s.channels / kVec;
  int64_t places = vectors / parts;
  for (const ResampleAxis<int64_t>& axis : s.axes) places *= WrittenBy(axis, s.backward);
  const int64_t images = s.outer * parts;
  if (images * places == 0) return cudaSuccess;
  const ImageGather<Int> gather = {
      {GatherOf<Int>(s.axes[0], s.backward), GatherOf<Int>(s.axes[1], s.backward),
       GatherOf<Int>(s.axes[2], s.backward)},
      Divider<Index>(vectors / parts),
      Divider<Index>(parts),
      static_cast<Index>(places),
      static_cast<Index>(images)};
  const unsigned blocks = BlocksOf(places);
  const int64_t rows =
      std::clamp<int64_t>(CeilDiv(kManyBlocks, blocks), 1, std::min(images, kMaxRows));
  ResampleKernel<kHeld, kVec, Int>
      <<<dim3(blocks, static_cast<unsigned>(rows)), kThreads, 0, stream>>>(gather, from, to);
  return cudaGetLastError();
}

// The length of the longest range along any axis.
int64_t LongestRange(const ResampleShape& s) {
  int64_t longest = 1;
  for (const ResampleAxis<int64_t>& axis : s.axes)
    longest = std::max(longest, s.backward ? axis.MaxOutputs() : axis.MaxInputs());
  return longest;
}

// Whether 32-bit numbers are enough for everything but addresses, where so many vectors of channels
// are a part.
bool IsNarrow(const ResampleShape& s, int64_t vectors, int64_t parts) {
  int64_t places = vectors;
  for (const ResampleAxis<int64_t>& axis : s.axes) {
    if (!neap::Fits32(axis)) return false;
    places = SaturatingProduct(places, std::max(axis.in, axis.out));
  }
  return Fits32(places) && Fits32(s.outer * parts);
}

template <int kVec, typename T>
cudaError_t ResampleVectors(const ResampleShape& s, const T* from, T* to, cudaStream_t stream) {
  const int64_t vectors = s.channels / kVec, longest = LongestRange(s);
  const int64_t parts = ChannelPartsOf(vectors, kVec * static_cast<int64_t>(sizeof(T)));
  const auto launch = !IsNarrow(s, vectors / parts, parts) ? LaunchResample<0, kVec, int64_t, T>
                      : longest <= 2                       ? LaunchResample<2, kVec, int32_t, T>
                      : longest <= 4                       ? LaunchResample<4, kVec, int32_t, T>
                                                           : LaunchResample<0, kVec, int32_t, T>;
  return launch(s, parts, from, to, stream);
}

}  // namespace

cudaError_t Resample(const ResampleShape& s, ConstArray from, Array to, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const bool wide = AllAligned16(from, to) && s.channels % kWide<T> == 0;
    const auto launch = wide ? ResampleVectors<kWide<T>, T> : ResampleVectors<1, T>;
    return launch(s, As<T>(from), As<T>(to), stream);
  };
  return WithElement(run, from, to);
}

}  // namespace neap::kernels
