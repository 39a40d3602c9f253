// Programmatic dependent launch: the blocks of a kernel may be on the GPU before the kernel in
// front of it in the stream has ended, where they wait for that end. This hides the launch of the
// second kernel, which is a part of a batch norm's time in small batches.
//
//   first   |~~ launch ~~|== runs ==|
//   second                |~~ launch ~~ waits |== runs ==|
//
// The first kernel calls AllowDependents() where the blocks of the second one may begin to wait,
// usually when it begins. The second one is launched by LaunchDependent() and calls
// AwaitKernelBefore() before it accesses memory. A kernel that calls both waits first: then kernels
// in front of the first one have ended, too.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace neap::kernels {

inline constexpr int kDependentLaunchVersion = 90;  // the oldest architecture that has it
// The most vectors of a tensor whose kernels overlap: as many as four blocks per multiprocessor of
// a large GPU load at once. Overlapping all kernels made ResNet-50's steps 1% slower at batch 32,
// but 1% faster at batch 8 (tf32, H200).
inline constexpr int64_t kMaxOverlappedVectors = 4 * 132 * 1024;

__device__ __forceinline__ void AllowDependents() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

__device__ __forceinline__ void AwaitKernelBefore() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

// Launches `kernel`, which reads or writes tensors of `vectors` vectors. The launch is an ordinary
// one for large tensors and on GPUs before compute capability 9.0.
template <typename... Parameters>
[[nodiscard]] cudaError_t LaunchDependent(int64_t vectors, void (*kernel)(Parameters...), dim3 grid,
                                          dim3 block, cudaStream_t stream,
                                          std::type_identity_t<Parameters>... arguments) {
  cudaFuncAttributes code = {};
  cudaError_t error = cudaSuccess;
  if (vectors <= kMaxOverlappedVectors)
    error = cudaFuncGetAttributes(&code, reinterpret_cast<const void*>(kernel));
  if (error == cudaSuccess) {
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = code.ptxVersion >= kDependentLaunchVersion ? 1 : 0;
    error = cudaLaunchKernelEx(&config, kernel, arguments...);
  }
  if (error != cudaSuccess) cudaGetLastError();  // which would report it for a later launch
  return error;
}

}  // namespace neap::kernels
