// The description of a tensor: its logical shape, element type, memory layout and role in training.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/base/ids.h"

namespace neap {

// Element type and the arithmetic done on it. kTf32 is stored as fp32 and multiplied on tensor
// cores with a 10-bit mantissa (as fp32 on devices without tensor cores). Products of 16-bit
// numbers are summed in fp32, and other arithmetic on them is done in fp32, too.
enum class DType : uint8_t { kFp32, kTf32, kFp16, kBf16, kUInt8, kInt32 };

// The most axes behind N and C: depth, height and width.
inline constexpr int kMaxSpatialAxes = 3;

// Order of the axes in memory: N, C and the spatial axes, or N, the spatial axes and C. Shapes are
// always given as N, C and the spatial axes, whatever the layout.
enum class Layout : uint8_t { kChannelsFirst, kChannelsLast };

enum class Role : uint8_t {
  kInput,       // images of the batch, and the iteration's scalars
  kLabel,       // class indices of the batch
  kActivation,  // output of a layer
  kSaved,       // kept by forward for backward, besides the output (batch mean, pooling index)
  kGradient,    // gradient of an activation; the norm of the gradients of parameters
  kParam,       // learned
  kParamGrad,   // gradient of a parameter
  kMaster,      // the fp32 value of a parameter whose kernels read 16 bits
  kOptimizer,   // moments of gradients, averages of parameters, the loss scale
  kState,       // running statistics, loss and accuracy: outlives the iteration, not learned
};
inline constexpr int kRoleCount = 10;

int64_t SizeOf(DType dtype);
constexpr bool Is16Bit(DType dtype) { return dtype == DType::kFp16 || dtype == DType::kBf16; }
// a * b, or the largest integer if that overflows. Absurdly large shapes thus stay large, and
// Resolve() refuses them.
int64_t SaturatingProduct(int64_t a, int64_t b);
std::string_view Name(DType dtype);
// The layout's name for tensors with 1 to 3 spatial axes: "ncw", "nchw" or "ncdhw", "nwc", "nhwc"
// or "ndhwc". Without the number of axes, as for a network, it is that of images.
std::string_view Name(Layout layout, int spatial_axes = 2);
std::string_view Name(Role role);
absl::StatusOr<DType> ParseDType(std::string_view text);
// Any of the names, or "channels_first" or "channels_last".
absl::StatusOr<Layout> ParseLayout(std::string_view text);
absl::StatusOr<Role> ParseRole(std::string_view text);

// True for roles whose tensors hold a value before the iteration begins and keep it after it ends.
constexpr bool IsPersistent(Role role) {
  return role == Role::kParam || role == Role::kMaster || role == Role::kOptimizer ||
         role == Role::kState;
}
// True for roles whose tensors get a new value for every iteration, before it begins.
constexpr bool IsBatch(Role role) { return role == Role::kInput || role == Role::kLabel; }
// True for roles whose tensors hold a value when the iteration begins: persistent ones and the
// batch.
constexpr bool IsGiven(Role role) { return IsPersistent(role) || IsBatch(role); }
// True for the roles that count as activation bytes: activations, saved tensors, and the gradients
// of activations.
constexpr bool CountsAsActivation(Role role) {
  return role == Role::kActivation || role == Role::kSaved || role == Role::kGradient;
}

// Some of a tensor's elements, in the order in which they lie in memory.
struct Slice {
  int64_t first = 0;
  int64_t count = 0;

  int64_t end() const { return first + count; }
  friend bool operator==(const Slice&, const Slice&) = default;
};

// Up to five extents: N, C and the spatial axes. Sequences are {N, C, T}, images {N, C, H, W},
// volumes {N, C, D, H, W}; fully connected outputs {N, C, 1, 1}; vectors {C}.
class Shape {
 public:
  using Dims = absl::InlinedVector<int64_t, 2 + kMaxSpatialAxes>;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(Dims dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  const Dims& dims() const { return dims_; }
  int64_t elements() const;      // saturates
  std::string ToString() const;  // "64x3x224x224"

  // The first two axes; 1 if the shape lacks the axis.
  int64_t n() const { return at(0); }
  int64_t c() const { return at(1); }
  // The axes behind these two, outermost first.
  absl::Span<const int64_t> spatial() const;
  int spatial_axes() const { return rank() > 2 ? rank() - 2 : 0; }
  int64_t positions() const;  // the product of the spatial extents: 1 if there are none; saturates
  // The last three spatial axes; 1 if the shape lacks the axis.
  int64_t d() const { return spatial_axes() > 2 ? dims_[dims_.size() - 3] : 1; }
  int64_t h() const { return spatial_axes() > 1 ? dims_[dims_.size() - 2] : 1; }
  int64_t w() const { return spatial_axes() > 0 ? dims_.back() : 1; }

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  int64_t at(size_t axis) const { return axis < dims_.size() ? dims_[axis] : 1; }
  Dims dims_;
};

// {n, c} and the spatial extents.
Shape SpatialShape(int64_t n, int64_t c, absl::Span<const int64_t> spatial);

// Everything that a kernel must know about a tensor besides its address. Elements are contiguous.
struct TensorSpec {
  Shape shape;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;

  int64_t elements() const { return shape.elements(); }
  int64_t size_bytes() const { return SaturatingProduct(elements(), SizeOf(dtype)); }
  // The layout's name for this shape. Class indices {N, H, W} have no channels, and the name
  // "nchw".
  std::string_view layout_name() const;
  std::string ToString() const;  // "64x3x224x224 fp32 nchw"
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// The same with another first extent, such as the number of examples; unchanged if there is none.
Shape WithFirstExtent(Shape shape, int64_t extent);
TensorSpec WithFirstExtent(TensorSpec spec, int64_t extent);

}  // namespace neap
