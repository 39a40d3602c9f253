// The launchers of neap's own CUDA kernels. They are plain functions, so the .cu files need no
// Abseil and their callers no nvcc.
//
// All kernels are bound by memory, so each moves every byte once, in 16-byte accesses if shapes and
// addresses allow. Tensors of activations are arrays of fp32, fp16 or bf16, all of one call of the
// same type unless it says otherwise. Kernels compute in fp32 and round a result once, when it is
// stored. All are deterministic: sums are taken in two stages in a fixed order that
// depends on the shape only, and gradients of windows are gathered, never scattered. Results may
// alias operands if the layer's table says "in place".
//
//   cudaError_t error = kernels::Activate(kernels::kRelu, x, y, elements, stream);
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "neap/layers/cuda/kernels/array.h"

namespace neap::kernels {

// A tensor's shape for reductions per channel: {outer, channels, inner} in memory, or {outer,
// inner, channels}.
struct ChannelShape {
  int64_t outer = 1;  // N
  int64_t channels = 1;
  int64_t inner = 1;  // H * W
  bool channels_last = false;
};

// Whether 32-bit indices suffice for n elements. Reductions per channel, LRN, softmax and global
// pooling have only these; poolings, for the vectors of an image; maps with values per channel, for
// the positions of a plane.
inline bool Fits32(int64_t n) { return n < (int64_t{1} << 31); }

// activation.cu. The functions of layers/activation.h; a and b are the fields of a layer that has
// some. The bounds of a clip are numbers of the tensors' type.
struct Activation {
  enum class Function : uint8_t {
    kRelu,
    kLeakyRelu,
    kClip,
    kSigmoid,
    kTanh,
    kHardSigmoid,
    kHardSwish,
    kSilu,
    kGelu,
    kTanhGelu,
    kElu,
    kSoftplus,
    kMish,
  };
  Function function = Function::kRelu;
  float a = 0, b = 0;
};
inline constexpr Activation kRelu = {};
cudaError_t Activate(const Activation& activation, ConstArray x, Array y, int64_t n,
                     cudaStream_t stream);
// `value` is y, or x where the layer's backward reads that.
cudaError_t ActivateBackward(const Activation& activation, ConstArray value, ConstArray dy,
                             Array dx, int64_t n, cudaStream_t stream);

// multiply.cu. The product y = a * b; y may be a. b has `factors` elements: as many as a, or one
// for each image and channel. A gradient is added to what it holds if so asked; da may be dy or a.
// The scratch memory is PerChannelScratchBytes().
int64_t PerChannelScratchBytes(const ChannelShape& shape, int64_t factors);
cudaError_t Multiply(const ChannelShape& shape, ConstArray a, ConstArray b, int64_t factors,
                     Array y, cudaStream_t stream);
struct PairGradients {
  Array da, db;
  bool adds_da = false;
  bool adds_db = false;
};
cudaError_t MultiplyBackward(const ChannelShape& shape, ConstArray a, ConstArray b, int64_t factors,
                             ConstArray dy, const PairGradients& gradients, void* scratch,
                             cudaStream_t stream);
// The sum y = a + b, where b has one value for each image and channel. da may be dy, or null.
cudaError_t AddPerChannel(const ChannelShape& shape, ConstArray a, ConstArray b, Array y,
                          cudaStream_t stream);
cudaError_t AddPerChannelBackward(const ChannelShape& shape, ConstArray dy,
                                  const PairGradients& gradients, void* scratch,
                                  cudaStream_t stream);

// channels_last.cu. From N, C, H, W to N, H, W, C order, rounded to the stored type. All fields of
// the shape count but channels_last.
cudaError_t ChannelsLast(const ChannelShape& shape, const float* from, Array to,
                         cudaStream_t stream);

// elementwise.cu
// y = sum of inputs[0 .. count-1], left to right; y may be inputs[0].
inline constexpr int kMaxAddends = 8;
cudaError_t Add(const ConstArray* inputs, int count, Array y, int64_t n, cudaStream_t stream);
// to = (or, if `add`, +=) from, which has 16 bits.
cudaError_t Widen(ConstArray from, float* to, int64_t n, bool add, cudaStream_t stream);
// Rounds to 16 bits.
cudaError_t Narrow(const float* from, Array to, int64_t n, cudaStream_t stream);
// Each channel of each image is a unit that is kept or dropped: number `first` of the layer is the
// first one. `scalars` points to an IterationScalars in device memory.
struct DropoutMask {
  int64_t first = 0;
  float probability = 0;
  uint64_t layer_seed = 0;
  const void* scalars = nullptr;
};
// For backward, x is dy and y is dx.
cudaError_t Dropout(const ChannelShape& units, const DropoutMask& mask, ConstArray x, Array y,
                    cudaStream_t stream);

// The memory of a reduction per channel. The tickets are kTickets zeros, and zeros again after each
// reduction; reductions that may run at the same time must not share them.
inline constexpr int64_t kTickets = 4096;
struct ReductionMemory {
  void* scratch = nullptr;
  uint32_t* tickets = nullptr;
};

// The scratch memory of a reduction per channel of a tensor, unless it has a function of its own.
int64_t ChannelScratchBytes(const ChannelShape& shape, Element type);

// bias.cu
// y = relu(x + bias); y may be x.
cudaError_t BiasRelu(const ChannelShape& shape, ConstArray x, const float* bias, Array y,
                     cudaStream_t stream);
// dx = dy, or 0 where y is; dbias = the sum of dx over the channel. dx may be dy.
cudaError_t BiasReluBackward(const ChannelShape& shape, ConstArray y, ConstArray dy, Array dx,
                             float* dbias, const ReductionMemory& memory, cudaStream_t stream);
cudaError_t AddBias(const ChannelShape& shape, const float* bias, Array y, cudaStream_t stream);
// dbias = (or, if `add`, +=) the sum of dy over the channel.
cudaError_t BiasGradient(const ChannelShape& shape, ConstArray dy, float* dbias, bool add,
                         const ReductionMemory& memory, cudaStream_t stream);

// bias_gelu.cu. y = gelu(x + bias), with x + bias rounded to the type of x; y may be x. `gelu` is
// kGelu or kTanhGelu.
cudaError_t BiasGelu(const ChannelShape& shape, const Activation& gelu, ConstArray x,
                     const float* bias, Array y, cudaStream_t stream);
// dx is the gradient of x; dbias = (or, if it adds, +=) the sum of dx over the channel. dx may be
// dy. The scratch memory is BiasGeluScratchBytes().
int64_t BiasGeluScratchBytes(const ChannelShape& shape, Element type);
struct BiasGradientSum {
  float* dbias = nullptr;
  bool adds = false;
};
cudaError_t BiasGeluBackward(const ChannelShape& shape, const Activation& gelu, ConstArray x,
                             const float* bias, ConstArray dy, Array dx, const BiasGradientSum& sum,
                             const ReductionMemory& memory, cudaStream_t stream);

// The index of a window whose maximum a ReLU made 0: kNotPositive (layers/pooling.h).
inline constexpr uint8_t kStopsAtRelu = 255;

// pooling.cu. Images are {outer, h, w, channels}, volumes {outer, d, h, w, channels}; channels
// first is outer = N * C, channels = 1. Planes of volumes can be images: outer is multiplied by
// their number.
struct PoolShape {
  int64_t outer = 1;
  int64_t channels = 1;
  int64_t planes = 1;       // of a volume, if they are images
  int axes = 2;             // 3 of volumes; the numbers along d are those of one plane otherwise
  int d = 1, h = 1, w = 1;  // of the input
  int out_d = 1, out_h = 1, out_w = 1;
  int kernel_d = 1, kernel_h = 1, kernel_w = 1;
  int stride_d = 1, stride_h = 1, stride_w = 1;
  int padding_d = 0, padding_h = 0, padding_w = 0;
  int dilation_d = 1, dilation_h = 1, dilation_w = 1;
  bool count_padding = true;  // average only: a mean counts padded zeros
};
// `index` is uint8_t* or, if `wide_index`, int32_t*; null if it is not needed.
cudaError_t MaxPool(const PoolShape& shape, ConstArray x, Array y, void* index, bool wide_index,
                    cudaStream_t stream);
cudaError_t MaxPoolBackward(const PoolShape& shape, ConstArray dy, const void* index,
                            bool wide_index, Array dx, cudaStream_t stream);
// bias.cu. Max pooling of relu(x + bias), which is not stored. The index is kStopsAtRelu where the
// maximum is 0, and null if it is not needed; `bias` may be null. `channels` are those of the
// image.
cudaError_t BiasReluPool(const PoolShape& shape, int64_t channels, ConstArray x, const float* bias,
                         Array y, uint8_t* index, cudaStream_t stream);
// dx is before the bias; dbias is its sum over the channel. `channels` is the shape of x.
cudaError_t BiasReluPoolBackward(const ChannelShape& channels, const PoolShape& shape,
                                 ConstArray dy, const uint8_t* index, Array dx, float* dbias,
                                 const ReductionMemory& memory, cudaStream_t stream);
cudaError_t AveragePool(const PoolShape& shape, ConstArray x, Array y, cudaStream_t stream);
cudaError_t AveragePoolBackward(const PoolShape& shape, ConstArray dy, Array dx,
                                cudaStream_t stream);
// global_pooling.cu
cudaError_t GlobalAveragePool(const ChannelShape& shape, ConstArray x, Array y,
                              cudaStream_t stream);
// Adds to dx if `adds`.
cudaError_t GlobalAveragePoolBackward(const ChannelShape& shape, ConstArray dy, Array dx, bool adds,
                                      cudaStream_t stream);

// lrn.cu
inline constexpr int64_t kMaxLrnSize = 65;
struct LrnOptions {
  int size = 5;
  float alpha = 1e-4F;
  float beta = 0.75F;
  float k = 1.0F;
};
cudaError_t Lrn(const ChannelShape& shape, const LrnOptions& options, ConstArray x, Array y,
                cudaStream_t stream);
cudaError_t LrnBackward(const ChannelShape& shape, const LrnOptions& options, ConstArray x,
                        ConstArray dy, Array dx, cudaStream_t stream);

// concat.cu: out[r * out_stride + k] (= or +=) in[r * in_stride + k] for r < rows, k < width.
struct RowCopy {
  int64_t rows = 0;
  int64_t width = 0;
  int64_t in_stride = 0;
  int64_t out_stride = 0;
  bool accumulate = false;
};
cudaError_t CopyRows(const RowCopy& copy, ConstArray in, Array out, cudaStream_t stream);

// crop.cu. Images and volumes as in PoolShape; the part has depth x height x width pixels and
// begins at (front, top, left). An image is a volume of one plane.
struct CropShape {
  int64_t outer = 1;
  int64_t channels = 1;
  int64_t d = 1, h = 1, w = 1;  // of the whole
  int64_t front = 0, top = 0, left = 0;
  int64_t depth = 1, height = 1, width = 1;
};
cudaError_t Crop(const CropShape& shape, ConstArray whole, Array part, cudaStream_t stream);
// Writes 0 outside the part.
cudaError_t ZeroPad(const CropShape& shape, ConstArray part, Array whole, cudaStream_t stream);

// pointwise.cu. Every stride-th pixel of planes {h, w}, {out_h, out_w} in each plane.
struct PixelGrid {
  int64_t planes = 1;
  int64_t h = 1, w = 1;
  int64_t out_h = 1, out_w = 1;
  int64_t stride_h = 1, stride_w = 1;
};
cudaError_t Gather(const PixelGrid& grid, const float* x, float* out, cudaStream_t stream);
// The inverse of Gather(); all other pixels become 0.
cudaError_t Spread(const PixelGrid& grid, const float* small, float* dx, cudaStream_t stream);
// sum[i] = parts[0][i] + ... + parts[count - 1][i]
cudaError_t SumParts(const float* parts, int64_t count, int64_t n, float* sum, cudaStream_t stream);

// space_to_depth.cu. Rearranges each block of pixels into the channels of one pixel: channel
// ((plane * block_h + row) * block_w + column) * channels + c of pixel (f, i, j) of `deep` is
// channel c of pixel (f * step_d + plane - padding_d, i * step_h + row - padding_h, j * step_w +
// column - padding_w) of the image or volume; it is 0 outside and in padding channels. Blocks
// overlap where steps are smaller.
struct DepthShape {
  int64_t outer = 1;
  int64_t channels = 1;
  int axes = 2;  // 3 of volumes; the numbers along d are those of one plane otherwise
  int64_t d = 1, h = 1, w = 1;
  int64_t deep_channels = 1;
  int64_t deep_d = 1, deep_h = 1, deep_w = 1;
  int64_t block_d = 1, block_h = 1, block_w = 1;
  int64_t step_d = 1, step_h = 1, step_w = 1;
  int64_t padding_d = 0, padding_h = 0, padding_w = 0;
  bool channels_last = false;
};
cudaError_t SpaceToDepth(const DepthShape& shape, ConstArray wide, Array deep, cudaStream_t stream);
// The inverse, in fp32, for blocks that do not overlap: writes every pixel from its place in
// `deep`, or 0 if it has none; adds if `add`.
cudaError_t DepthToSpace(const DepthShape& shape, const float* deep, float* wide, bool add,
                         cudaStream_t stream);

}  // namespace neap::kernels
