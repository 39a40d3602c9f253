// Batch norm whose results, with the sum and the ReLU behind it, are averaged over each image and
// channel and not stored (layers/fusion/norm_pass.h). The sums have the order of
// global_pooling.cu.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"
#include "neap/layers/cuda/kernels/norm/batch_norm_apply.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_passes.cuh"

namespace neap::kernels {
namespace {

constexpr int kRowThreads =
    64;                    // small, so that a small tensor has blocks for many multiprocessors
constexpr int kAhead = 8;  // pixels whose loads are in flight

// One thread per vector of channels and image; neighbouring threads read neighbouring vectors. A
// vector of several channels has a byte of the mask.
template <int kVec, Addend kAddend, typename T>
__global__ void __launch_bounds__(kRowThreads)
    AverageRows(Applied<kAddend, T> applied, size_t outputs, Divider<uint32_t> channels, int inner,
                uint8_t* mask, T* y) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kRowThreads + threadIdx.x;
  if (i >= outputs) return;
  uint32_t c = 0;
  const size_t image = channels.Split(static_cast<uint32_t>(i), c);
  const auto at = [&, begin = image * inner * channels.divisor + c](int p) {
    return begin + static_cast<size_t>(p) * channels.divisor;
  };
  const auto constants = applied.template Prepare<true, kVec>(static_cast<size_t>(c) * kVec);
  Vec<kVec> sum = {};
  for (int first = 0; first < inner; first += kAhead) {
    typename Applied<kAddend, T>::template Registers<kVec> loaded[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (first + a < inner) loaded[a] = applied.template Load<kVec>(at(first + a));
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (first + a >= inner) break;
      unsigned bits = 0;
      applied.template Of<kVec>(constants, loaded[a], [&](int k, float rounded) {
        sum.v[k] += rounded;
        bits |= MaskBit(rounded) << k;
      });
      if constexpr (kVec > 1) {
        if (mask != nullptr) mask[at(first + a)] = static_cast<uint8_t>(bits);
      }
    }
  }
#pragma unroll
  for (float& f : sum.v) f /= static_cast<float>(inner);
  Write<kVec>(y, i, sum);
}

// One warp per plane.
template <Addend kAddend, typename T>
__global__ void __launch_bounds__(kThreads)
    AveragePlanes(Applied<kAddend, T> applied, size_t planes, Divider<uint32_t> channels, int inner,
                  T* y) {
  const size_t plane = static_cast<size_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (plane >= planes) return;
  uint32_t c = 0;
  channels.Split(static_cast<uint32_t>(plane), c);
  const auto constants = applied.template Prepare<false, 1>(c);
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x % 32); i < inner; i += 32) {
    applied.template Of<1>(constants, applied.template Load<1>(plane * inner + i),
                           [&](int, float rounded) { sum += rounded; });
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0U, sum, offset);
  if (threadIdx.x % 32 == 0) y[plane] = RoundTo<T>(sum / static_cast<float>(inner));
}

// Writes the mask where vectors do not fit the tensor, in a pass of its own: one thread per byte. A
// channel has `run` consecutive elements.
template <Addend kAddend, typename T>
__global__ void __launch_bounds__(kThreads)
    AveragedMask(Applied<kAddend, T> applied, size_t n, size_t channels, size_t run,
                 uint8_t* mask) {
  const size_t byte = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  const size_t first = byte * kWide<T>;
  if (first >= n) return;
  size_t c = first / run % channels, within = first % run;
  auto constants = applied.template Prepare<false, 1>(c);
  unsigned bits = 0;
  for (size_t k = 0; k < kWide<T> && first + k < n; ++k) {
    applied.template Of<1>(constants, applied.template Load<1>(first + k),
                           [&](int, float rounded) { bits |= MaskBit(rounded) << k; });
    if (++within < run) continue;
    within = 0;
    c = c + 1 < channels ? c + 1 : 0;
    constants = applied.template Prepare<false, 1>(c);
  }
  mask[byte] = static_cast<uint8_t>(bits);
}

unsigned BlocksOf(int64_t threads, int64_t per_block) {
  return static_cast<unsigned>(CeilDiv(threads, per_block));
}

template <int kVec, Addend kAddend, typename T>
void LaunchRows(const ChannelShape& s, const Applied<kAddend, T>& applied, uint8_t* mask, T* y,
                cudaStream_t stream) {
  const int64_t outputs = s.outer * s.channels / kVec;
  AverageRows<kVec><<<BlocksOf(outputs, kRowThreads), kRowThreads, 0, stream>>>(
      applied, static_cast<size_t>(outputs), Divider<uint32_t>(s.channels / kVec),
      static_cast<int>(s.inner), mask, y);
}

template <Addend kAddend, typename T>
cudaError_t Average(const ChannelShape& s, bool aligned, const Applied<kAddend, T>& applied,
                    uint8_t* mask, T* y, cudaStream_t stream) {
  const int64_t n = s.outer * s.channels * s.inner;
  const bool wide = s.channels_last && aligned && s.channels % kWide<T> == 0;
  if (wide) {
    LaunchRows<kWide<T>>(s, applied, mask, y, stream);
  } else if (s.channels_last) {
    LaunchRows<1>(s, applied, nullptr, y, stream);
  } else {
    const int64_t planes = s.outer * s.channels;
    AveragePlanes<<<BlocksOf(planes * 32, kThreads), kThreads, 0, stream>>>(
        applied, static_cast<size_t>(planes), Divider<uint32_t>(s.channels),
        static_cast<int>(s.inner), y);
  }
  if (mask != nullptr && !wide) {
    AveragedMask<<<BlocksOf(CeilDiv(n, kWide<T>), kThreads), kThreads, 0, stream>>>(
        applied, static_cast<size_t>(n), static_cast<size_t>(s.channels),
        static_cast<size_t>(s.channels_last ? 1 : s.inner), mask);
  }
  return cudaGetLastError();
}

// The gradient of an element that was averaged, as the T that the pooling alone would have stored.
template <typename T>
class AveragedGradient {
 public:
  AveragedGradient(const ChannelShape& s, const T* dy)
      : last_(s.channels_last),
        fits_(Fits32(s.outer * s.channels * s.inner)),
        scale_(1.0F / static_cast<float>(s.inner)),
        block_(fits_ ? BlockOf(s) : 1),
        channels_(fits_ ? s.channels : 1),
        long_block_(BlockOf(s)),
        long_channels_(s.channels),
        dy_(dy) {}

  // Of the i-th vector of the input.
  template <int kVec>
  __device__ __forceinline__ Packed<T, kVec> Load(size_t i) const {
    const size_t at = fits_ ? Mean<uint32_t>(static_cast<uint32_t>(i * kVec), block_, channels_)
                            : LongMean(i * kVec);
    Vec<kVec> v;
    if (last_) {
      v = Unpack(Read<kVec>(dy_, at / kVec));
    } else {
      v = Broadcast<kVec>(ToFloat(dy_[at]));
    }
#pragma unroll
    for (float& f : v.v) f = __fmul_rn(f, scale_);  // no part of an FMA, as if it were stored
    return Pack<T>(v);
  }

 private:
  // The elements of an image (NHWC) or of a plane (NCHW).
  static int64_t BlockOf(const ChannelShape& s) {
    return s.channels_last ? s.inner * s.channels : s.inner;
  }
  // The number of the mean to which element i belongs.
  template <typename Index>
  __device__ __forceinline__ size_t Mean(Index i, const Divider<Index>& block,
                                         const Divider<Index>& channels) const {
    Index ignored = 0, c = 0;
    const size_t before = block.Split(i, ignored);
    if (!last_) return before;
    channels.Split(i, c);
    return before * channels.divisor + c;
  }
  __device__ __noinline__ size_t LongMean(size_t i) const {
    return Mean<uint64_t>(i, long_block_, long_channels_);
  }

  bool last_;
  bool fits_;  // in 32-bit indices
  float scale_;
  Divider<uint32_t> block_, channels_;
  Divider<uint64_t> long_block_, long_channels_;
  const T* dy_;
};

}  // namespace

cudaError_t BatchNormAverage(const ChannelShape& s, const BatchNormOperands& in,
                             const BatchNormEpilogue& epilogue, Array y, cudaStream_t stream) {
  if (!Fits32(s.outer * s.channels) || !Fits32(s.inner)) return cudaErrorInvalidValue;
  const BatchNormOperands& addend = epilogue.addend;
  const bool aligned = AllAligned16(in) && AllAligned16(addend) && Aligned16(y);
  const auto run = [&]<Addend kAddend, typename T>() {
    return Average(s, aligned, Applied<kAddend, T>{in, addend, epilogue.relu}, epilogue.mask,
                   As<T>(y), stream);
  };
  return WithAddend(in, addend, y, run);
}

cudaError_t BatchNormAverageBackward(const ChannelShape& s, const BatchNormOperands& in,
                                     const BatchNormGradient& gradient, const BatchNormSums& sums,
                                     Array dx, const ReductionMemory& memory, cudaStream_t stream) {
  const Passes passes = {s, in, sums, dx, gradient.daddend, memory, stream};
  const auto run = [&]<typename T>() {
    const bool relu = gradient.relu && gradient.mask == nullptr;
    using Source = Gradient<Through::kMaskOrRelu, AveragedGradient<T>, T>;
    return passes.Run<T>(Source{in, {s, As<T>(gradient.dy)}, gradient.mask, relu},
                         AllAligned16(in) && Aligned16(gradient.dy));
  };
  return WithElement(run, in.x, gradient.dy, gradient.daddend, dx);
}

cudaError_t SummedBatchNormsAverageBackward(const ChannelShape& s, const SummedBatchNorms& norms,
                                            ConstArray dy, const uint8_t* mask,
                                            const ReductionMemory& memory, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return RunBoth<T>(s, norms, AveragedGradient<T>(s, As<T>(dy)), mask, Aligned16(dy), memory,
                      stream);
  };
  return WithElement(run, norms.first.x, norms.second.x, dy, norms.dx, norms.dother);
}

}  // namespace neap::kernels
