// Transposed matrices of runs of elements. A thread owns elements of the result, so every element
// is written once.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/transpose_runs.h"

namespace neap::kernels {
namespace {

// Of the result {outer, columns, rows, run}, whose runs are counted in vectors.
template <typename Index>
struct Transposed {
  Index count;  // vectors
  Divider<Index> columns, rows, run;
};

template <int kVec, typename Index, typename T>
__global__ void __launch_bounds__(kThreads)
    TransposeKernel(Transposed<Index> t, const T* __restrict__ from, T* __restrict__ to) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= t.count) return;
  Index in_run = 0, row = 0, column = 0;
  const Index outer = t.columns.Split(t.rows.Split(t.run.Split(i, in_run), row), column);
  const Index source = (outer * t.rows.divisor + row) * t.columns.divisor + column;
  Write<kVec>(to, i, Read<kVec>(from, static_cast<size_t>(source) * t.run.divisor + in_run));
}

template <int kVec, typename T>
cudaError_t LaunchTranspose(const RunMatrix& m, const T* from, T* to, cudaStream_t stream) {
  const int64_t count = m.outer * m.rows * m.columns * (m.run / kVec);
  if (count == 0) return cudaSuccess;
  const unsigned blocks = static_cast<unsigned>(CeilDiv(count, kThreads));
  const auto launch = [&]<typename Index>() {
    const Transposed<Index> t = {static_cast<Index>(count), Divider<Index>(m.columns),
                                 Divider<Index>(m.rows), Divider<Index>(m.run / kVec)};
    TransposeKernel<kVec><<<blocks, kThreads, 0, stream>>>(t, from, to);
  };
  Fits32(count) ? launch.template operator()<uint32_t>() : launch.template operator()<uint64_t>();
  return cudaGetLastError();
}

}  // namespace

cudaError_t TransposeRuns(const RunMatrix& m, ConstArray from, Array to, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const bool wide = AllAligned16(from, to) && m.run % kWide<T> == 0;
    const auto launch = wide ? LaunchTranspose<kWide<T>, T> : LaunchTranspose<1, T>;
    return launch(m, As<T>(from), As<T>(to), stream);
  };
  return WithElementSize(run, from, to);
}

}  // namespace neap::kernels
