// Softmax along an axis (layers/norm/softmax.h). Some lanes of a block share a vector, and each
// element is read again, from cache, for every reduction.
//
//   inner = 1   lanes that share a vector are neighbours, as its elements are
//   inner > 1   lanes of neighbouring vectors are neighbours
//
// How many lanes share a vector depends on its length and on `inner` only, so an image has the same
// bits in any part of a batch.
#include <cfloat>

#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/norm/softmax.h"

namespace neap::kernels {
namespace {

struct VectorLanes {
  size_t vectors;  // of all
  size_t length, inner;
  uint32_t lanes;  // of a vector, a power of two
};

// The vector of a thread, and its elements: every lanes-th from number `lane` on.
struct LanePosition {
  __device__ explicit LanePosition(const VectorLanes& v) : length(v.length), step(v.inner) {
    const uint32_t of_block = kThreads / v.lanes;
    const bool together = v.inner == 1;
    lane = together ? threadIdx.x % v.lanes : threadIdx.x / of_block;
    column = together ? threadIdx.x / v.lanes : threadIdx.x % of_block;
    columns = of_block;
    lanes = v.lanes;
    const size_t vector = static_cast<size_t>(blockIdx.x) * of_block + column;
    exists = vector < v.vectors;
    first = vector / v.inner * (v.length * v.inner) + vector % v.inner;
  }
  // Calls f with the place of each of the elements.
  template <typename F>
  __device__ void ForEach(F f) const {
    if (!exists) return;
    for (size_t l = lane; l < length; l += lanes) f(first + l * step);
  }
  size_t first, length, step;
  uint32_t lane, lanes, column, columns;
  bool exists;
};

// The maximum if kMax, otherwise the sum, of the values of the lanes of each vector, in a fixed
// order. All threads of a block call it.
template <bool kMax>
__device__ float ReduceLanes(const LanePosition& at, float value) {
  __shared__ float values[kThreads];
  float* const own = values + at.lane * at.columns + at.column;
  __syncthreads();
  *own = value;
  __syncthreads();
  for (uint32_t half = at.lanes / 2; half > 0; half /= 2) {
    if (at.lane < half) {
      const float other = own[half * at.columns];
      *own = kMax ? fmaxf(*own, other) : *own + other;
    }
    __syncthreads();
  }
  return values[at.column];
}

template <bool kLogarithm, typename T>
__global__ void __launch_bounds__(kThreads) SoftmaxVectors(VectorLanes v, const T* x, T* y) {
  const LanePosition at(v);
  float largest = -FLT_MAX;
  at.ForEach([&](size_t i) { largest = fmaxf(largest, ToFloat(x[i])); });
  largest = ReduceLanes<true>(at, largest);
  float sum = 0;
  at.ForEach([&](size_t i) { sum += expf(ToFloat(x[i]) - largest); });
  sum = ReduceLanes<false>(at, sum);
  const float log_sum = logf(sum);
  at.ForEach([&](size_t i) {
    const float shifted = ToFloat(x[i]) - largest;
    y[i] = RoundTo<T>(kLogarithm ? shifted - log_sum : expf(shifted) / sum);
  });
}

template <bool kLogarithm, typename T>
__global__ void __launch_bounds__(kThreads)
    SoftmaxVectorsBackward(VectorLanes v, const T* y, const T* dy, T* dx) {
  const LanePosition at(v);
  float sum = 0;
  at.ForEach([&](size_t i) {
    const float gradient = ToFloat(dy[i]);
    sum += kLogarithm ? gradient : gradient * ToFloat(y[i]);
  });
  sum = ReduceLanes<false>(at, sum);
  at.ForEach([&](size_t i) {
    const float value = ToFloat(y[i]), gradient = ToFloat(dy[i]);
    dx[i] = RoundTo<T>(kLogarithm ? gradient - expf(value) * sum : value * (gradient - sum));
  });
}

// Enough lanes to read whole lines of memory, or, if neighbours are of other vectors, to fill a
// GPU.
uint32_t LanesOf(const AxisRows& rows) {
  constexpr int64_t kFewThreads = 4096, kLongLane = 16;
  uint32_t lanes = 1;
  if (rows.inner == 1) {
    while (lanes < kThreads && lanes < rows.length) lanes *= 2;
  } else {
    while (lanes < 32 && lanes * kLongLane < rows.length && lanes * rows.inner < kFewThreads)
      lanes *= 2;
  }
  return lanes;
}

// Calls launch(vectors, blocks).
template <typename Launch>
cudaError_t ForVectors(const AxisRows& rows, const Launch& launch) {
  const VectorLanes v = {static_cast<size_t>(rows.outer * rows.inner),
                         static_cast<size_t>(rows.length), static_cast<size_t>(rows.inner),
                         LanesOf(rows)};
  const int64_t blocks = CeilDiv(rows.outer * rows.inner, kThreads / v.lanes);
  if (!Fits32(blocks)) return cudaErrorInvalidValue;
  if (blocks > 0) launch(v, static_cast<unsigned>(blocks));
  return cudaGetLastError();
}

}  // namespace

cudaError_t SoftmaxAxis(const AxisRows& rows, bool logarithm, ConstArray x, Array y,
                        cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return ForVectors(rows, [&](const VectorLanes& v, unsigned blocks) {
      if (logarithm) {
        SoftmaxVectors<true><<<blocks, kThreads, 0, stream>>>(v, As<T>(x), As<T>(y));
      } else {
        SoftmaxVectors<false><<<blocks, kThreads, 0, stream>>>(v, As<T>(x), As<T>(y));
      }
    });
  };
  return WithElement(run, x, y);
}

cudaError_t SoftmaxAxisBackward(const AxisRows& rows, bool logarithm, ConstArray y, ConstArray dy,
                                Array dx, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return ForVectors(rows, [&](const VectorLanes& v, unsigned blocks) {
      if (logarithm) {
        SoftmaxVectorsBackward<true>
            <<<blocks, kThreads, 0, stream>>>(v, As<T>(y), As<T>(dy), As<T>(dx));
      } else {
        SoftmaxVectorsBackward<false>
            <<<blocks, kThreads, 0, stream>>>(v, As<T>(y), As<T>(dy), As<T>(dx));
      }
    });
  };
  return WithElement(run, y, dy, dx);
}

}  // namespace neap::kernels
