#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "tests/cuda_emulation/last_error.h"

struct EmulatedStream {};
struct EmulatedEvent {
  bool timed = false;
  std::chrono::steady_clock::time_point at = {};
};

namespace {

constexpr size_t kAlignment = 4096;
constexpr size_t kMemoryBytes = size_t{16} << 30;
constexpr size_t kLibraryBytes = size_t{500} << 20;

thread_local cudaError_t last_error = cudaSuccess;

// The sizes of device memory.
struct Allocations {
  std::mutex mutex;
  std::unordered_map<void*, size_t> sizes;
  size_t bytes = 0;
};
Allocations& Allocated() {
  static Allocations allocations;
  return allocations;
}

cudaError_t Result(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t CheckDevice(int device) {
  return Result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

namespace neap::emulation {
void SetLastError(cudaError_t error) { last_error = error; }
}  // namespace neap::emulation

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "cudaErrorPeerAccessAlreadyEnabled";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNotSupported:
      return "cudaErrorNotSupported";
  }
  return "unknown";
}
const char* cudaGetErrorString(cudaError_t) { return "on the emulated GPU"; }
cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return CheckDevice(device); }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {.name = "emulated GPU",
                 .totalGlobalMem = kMemoryBytes,
                 .multiProcessorCount = 132,
                 .major = 9,
                 .minor = 0,
                 .l2CacheSize = 1 << 20,
                 .maxThreadsPerMultiProcessor = 2048,
                 .maxBlocksPerMultiProcessor = 32,
                 .sharedMemPerBlockOptin = 232448,
                 .reservedSharedMemPerBlock = 1024};
  return CheckDevice(device);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const bool is_clock = attribute != cudaDevAttrGlobalMemoryBusWidth;
  *value = is_clock ? 1'000'000 : 4096;
  return CheckDevice(device);
}
cudaError_t cudaDeviceCanAccessPeer(int* can_access, int, int) {
  *can_access = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return Result(cudaErrorInvalidDevice); }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  Allocations& of = Allocated();
  const std::lock_guard<std::mutex> lock(of.mutex);
  if (bytes > kMemoryBytes - kLibraryBytes - of.bytes) return Result(cudaErrorMemoryAllocation);
  *memory = std::aligned_alloc(kAlignment, RoundUp(bytes));
  if (*memory == nullptr) return Result(cudaErrorMemoryAllocation);
  of.sizes[*memory] = bytes;
  of.bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  Allocations& of = Allocated();
  const std::lock_guard<std::mutex> lock(of.mutex);
  const auto found = of.sizes.find(memory);
  if (found == of.sizes.end()) return Result(cudaErrorInvalidValue);
  of.bytes -= found->second;
  of.sizes.erase(found);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  *memory = bytes > kMemoryBytes ? nullptr : std::aligned_alloc(kAlignment, RoundUp(bytes));
  return Result(*memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = kMemoryBytes;
  *free = kMemoryBytes - kLibraryBytes - Allocated().bytes;
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {.ptxVersion = 90};
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = *highest = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = new EmulatedStream;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new EmulatedEvent{.timed = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->at = std::chrono::steady_clock::now();
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t earlier, cudaEvent_t later) {
  if (!earlier->timed || !later->timed) return Result(cudaErrorInvalidResourceHandle);
  *ms = std::chrono::duration<float, std::milli>(later->at - earlier->at).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  return Result(cudaErrorNotSupported);
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) {
  return Result(cudaErrorNotSupported);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned) {
  return Result(cudaErrorNotSupported);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return Result(cudaErrorNotSupported); }
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return Result(cudaErrorNotSupported); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }
cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
