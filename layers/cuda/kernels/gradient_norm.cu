// The norm of gradients: sums of squares of parts of tensors, then of each tensor, in an order that
// depends on the tensors' sizes only.
#include "neap/layers/cuda/kernels/block_reduce.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/optimizer.h"
#include "neap/layers/cuda/kernels/tensor_blocks.cuh"

namespace neap::kernels {
namespace {

constexpr int64_t kPart = 16384;  // elements that one block sums
static_assert(kPart % (kThreads * kUnroll) == 0);
static_assert(sizeof(GradientTensors) + sizeof(TensorBlocks<kMaxTensors>) + 32 <= 4096);

__global__ void __launch_bounds__(kThreads)
    PartsKernel(const __grid_constant__ GradientTensors t,
                const __grid_constant__ TensorBlocks<kMaxTensors> blocks, float* parts) {
  const BlockShare share = ShareOf(blocks, blockIdx.x);
  const float* const values = t.gradients[share.tensor];
  float sum = 0;
#pragma unroll 4
  for (size_t i = share.begin + threadIdx.x; i < share.end; i += kThreads)
    sum += values[i] * values[i];
  const double of_block = BlockReduce<false>(static_cast<double>(sum));
  if (threadIdx.x == 0) parts[blockIdx.x] = static_cast<float>(of_block);
}

__global__ void __launch_bounds__(kThreads)
    AddPartsKernel(const __grid_constant__ TensorBlocks<kMaxTensors> blocks, const float* parts,
                   bool begins, float* squares) {
  float total = begins ? 0.0F : *squares;
  for (int tensor = 0; tensor < blocks.count; ++tensor) {
    double sum = 0;
    for (unsigned i = blocks.first[tensor] + threadIdx.x; i < blocks.first[tensor + 1];
         i += kThreads)
      sum += static_cast<double>(parts[i]);
    total += static_cast<float>(BlockReduce<false>(sum));
  }
  if (threadIdx.x == 0) *squares = total;
}

}  // namespace

int64_t SquaresParts(int64_t elements) { return CeilDiv(elements, kPart); }

cudaError_t AddSquares(const GradientTensors& tensors, bool begins, float* parts, float* squares,
                       cudaStream_t stream) {
  const auto blocks = FixedBlocksOf<kMaxTensors>(tensors, kPart);
  if (blocks.total() == 0) return cudaSuccess;
  PartsKernel<<<blocks.total(), kThreads, 0, stream>>>(tensors, blocks, parts);
  AddPartsKernel<<<1, kThreads, 0, stream>>>(blocks, parts, begins, squares);
  return cudaGetLastError();
}

}  // namespace neap::kernels
