// The loops of pooling, which kernels that compute its input or use its gradient share.
//
// Images are {outer, h, w, channels}, volumes {outer, d, h, w, channels}; channels first is the
// case of one channel and N * C images, so both layouts share a kernel. Each kernel exists for two
// axes and for three. With two, an image is a volume of one plane, and what is 0 or 1 along d falls
// away when the kernel is compiled. Gradients are gathered: a thread owns elements of dx and reads
// every window that covers them, so the order of additions is fixed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

// Extents of an image or volume.
struct Grid {
  int64_t d, h, w;
};
inline Grid InGrid(const PoolShape& s) { return {s.d, s.h, s.w}; }
inline Grid OutGrid(const PoolShape& s) { return {s.out_d, s.out_h, s.out_w}; }

// The position of a vector in an {outer, d, h, w, channels} volume.
template <typename Index>
struct Position {
  Index outer, plane, row, column, channel;  // channel in vectors
};

template <typename Index, int kAxes>
struct Decoder {
  Decoder(const Grid& grid, int64_t channel_vectors)
      : planes(grid.d), rows(grid.h), columns(grid.w), channels(channel_vectors) {}
  __device__ __forceinline__ Position<Index> operator()(Index i) const {
    Position<Index> p;
    p.outer = rows.Split(columns.Split(channels.Split(i, p.channel), p.column), p.row);
    p.plane = 0;
    if constexpr (kAxes == 3) p.outer = planes.Split(p.outer, p.plane);
    return p;
  }
  Divider<Index> planes, rows, columns, channels;
};

template <int kVec, typename I>
struct alignas(AlignmentOf(sizeof(I) * kVec)) Indices {
  I v[kVec];
};

// Strides of images, planes, rows and pixels, in vectors.
struct Strides {
  size_t image, plane, row, pixel;
};
template <int kAxes>
__device__ __forceinline__ Strides VectorStrides(int d, int h, int w, size_t channel_vectors) {
  const size_t plane = static_cast<size_t>(h) * w * channel_vectors;
  return {kAxes == 3 ? plane * d : plane, plane, w * channel_vectors, channel_vectors};
}
template <int kAxes>
__device__ __forceinline__ Strides InStrides(const PoolShape& s, int vec) {
  return VectorStrides<kAxes>(s.d, s.h, s.w, static_cast<size_t>(s.channels / vec));
}
template <int kAxes>
__device__ __forceinline__ Strides OutStrides(const PoolShape& s, int vec) {
  return VectorStrides<kAxes>(s.out_d, s.out_h, s.out_w, static_cast<size_t>(s.channels / vec));
}

// Calls visit(plane) for the planes from `first` to before `last`, or of images for 0.
template <int kAxes, typename Visit>
__device__ __forceinline__ void ForEachPlane(int first, int last, const Visit& visit) {
  if constexpr (kAxes == 3) {
    for (int plane = first; plane < last; ++plane) visit(plane);
  } else {
    visit(0);
  }
}

// What is pooled is x as it is.
struct AsItIs {
  static constexpr bool kRelu = false;
  struct Nothing {};
  template <int kVec>
  __device__ Nothing Prepare(size_t) const {
    return {};
  }
  template <int kVec>
  __device__ void Apply(Nothing, Vec<kVec>&) const {}
};

// The maximum of the elements before, lane by lane, and where it is in the window.
template <int kVec, typename I>
struct Maximum {
  Vec<kVec> best;
  Indices<kVec, I> where;
  bool none = true;
  __device__ __forceinline__ void Take(const Vec<kVec>& v, I here) {
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      // The first NaN stays: no number is larger, and a second NaN does not replace it.
      if (none || v.v[k] > best.v[k] || (isnan(v.v[k]) && !isnan(best.v[k]))) {
        best.v[k] = v.v[k];
        where.v[k] = here;
      }
    }
    none = false;
  }
};

// Divisions by numbers of all axes.
struct AxisDividers {
  AxisDividers(int depth, int height, int width) : d(depth), h(height), w(width) {}
  Divider<uint32_t> d, h, w;
};
inline AxisDividers StrideDividers(const PoolShape& s) {
  return {s.stride_d, s.stride_h, s.stride_w};
}
inline AxisDividers DilationDividers(const PoolShape& s) {
  return {s.dilation_d, s.dilation_h, s.dilation_w};
}
struct WindowDividers {
  explicit WindowDividers(const PoolShape& s)
      : stride(StrideDividers(s)), dilation(DilationDividers(s)) {}
  AxisDividers stride, dilation;
};

// A place along each axis: of a window, or of an element in it.
struct Place {
  int d, h, w;
};
template <typename Index>
__device__ __forceinline__ Place PlaceOf(const Position<Index>& p) {
  return {static_cast<int>(p.plane), static_cast<int>(p.row), static_cast<int>(p.column)};
}
// The last axis runs fastest (layers/pooling.h).
__device__ __forceinline__ int IndexInWindow(const PoolShape& s, const Place& element) {
  return (element.d * s.kernel_h + element.h) * s.kernel_w + element.w;
}
// Where a window's first element is, which may be in the padding.
template <int kAxes>
__device__ __forceinline__ Place OriginOf(const PoolShape& s, const Place& window) {
  return {kAxes == 3 ? window.d * s.stride_d - s.padding_d : 0, window.h * s.stride_h - s.padding_h,
          window.w * s.stride_w - s.padding_w};
}

// The elements of a window that begins at `begin` which are before `end`, along one axis.
__device__ __forceinline__ int ElementsBefore(int end, int begin, int kernel,
                                              const Divider<uint32_t>& dilation) {
  if (end <= begin) return 0;
  return min(kernel,
             static_cast<int>(dilation.Quotient(static_cast<uint32_t>(end - begin - 1))) + 1);
}

// Calls visit(place in the window) for every element of the window that is in the image.
template <int kAxes, typename Visit>
__device__ __forceinline__ void ForEachInWindow(const PoolShape& s, const AxisDividers& dilation,
                                                const Place& origin, const Visit& visit) {
  const Place first = {kAxes == 3 ? ElementsBefore(0, origin.d, s.kernel_d, dilation.d) : 0,
                       ElementsBefore(0, origin.h, s.kernel_h, dilation.h),
                       ElementsBefore(0, origin.w, s.kernel_w, dilation.w)};
  const Place last = {kAxes == 3 ? ElementsBefore(s.d, origin.d, s.kernel_d, dilation.d) : 1,
                      ElementsBefore(s.h, origin.h, s.kernel_h, dilation.h),
                      ElementsBefore(s.w, origin.w, s.kernel_w, dilation.w)};
  ForEachPlane<kAxes>(first.d, last.d, [&](int kd) {
    for (int kh = first.h; kh < last.h; ++kh) {
      for (int kw = first.w; kw < last.w; ++kw) visit(Place{kd, kh, kw});
    }
  });
}

// What is pooled is computed from x by `before`: Prepare(c) gives what Apply() needs for a vector
// whose first channel is c. If it ends with a ReLU, the index says where the ReLU passes no
// gradient. `channels` is the number of channels that images take turns in (NCHW), or 1, and
// `planes` how many images follow each other in one. kSide is the side of square and cubic windows
// without dilation, whose loads then overlap, or 0 for any.
template <int kAxes, int kVec, int kSide, typename Before, typename T, typename I>
__global__ void __launch_bounds__(kThreads)
    MaxPoolKernel(PoolShape s, AxisDividers dilation, Decoder<uint32_t, kAxes> decode,
                  uint32_t outputs, Before before, uint32_t channels, Divider<uint32_t> planes,
                  const T* __restrict__ x, T* __restrict__ y, I* __restrict__ index) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= outputs) return;
  const Position<uint32_t> p = decode(i);
  const Strides in = InStrides<kAxes>(s, kVec);
  const Place origin = OriginOf<kAxes>(s, PlaceOf(p));
  const size_t base = p.outer * in.image + p.channel;
  const auto constants = before.template Prepare<kVec>(
      channels == 1 ? static_cast<size_t>(p.channel) * kVec : planes.Quotient(p.outer) % channels);
  const auto load = [&](const Place& k) {
    const int row = kSide > 0 ? origin.h + k.h : origin.h + k.h * s.dilation_h;
    const int column = kSide > 0 ? origin.w + k.w : origin.w + k.w * s.dilation_w;
    size_t at = base + static_cast<size_t>(row) * in.row + static_cast<size_t>(column) * in.pixel;
    if constexpr (kAxes == 3) {
      const int plane = kSide > 0 ? origin.d + k.d : origin.d + k.d * s.dilation_d;
      at += static_cast<size_t>(plane) * in.plane;
    }
    return Read<kVec>(x, at);
  };
  Maximum<kVec, I> maximum;
  const auto take = [&](const Packed<T, kVec>& loaded, const Place& k) {
    Vec<kVec> v = Unpack(loaded);
    before.Apply(constants, v);
    maximum.Take(v, static_cast<I>(IndexInWindow(s, k)));
  };
  if constexpr (kSide > 0) {
    constexpr int kArea = kSide * kSide, kElements = kAxes == 3 ? kArea * kSide : kArea;
    const auto place = [](int n) { return Place{n / kArea, n / kSide % kSide, n % kSide}; };
    const auto inside = [&](const Place& k) {
      const int d = origin.d + k.d, h = origin.h + k.h, w = origin.w + k.w;
      return (kAxes == 2 || (d >= 0 && d < s.d)) && h >= 0 && h < s.h && w >= 0 && w < s.w;
    };
    Packed<T, kVec> loaded[kElements];
#pragma unroll
    for (int n = 0; n < kElements; ++n) {
      if (inside(place(n))) loaded[n] = load(place(n));
    }
#pragma unroll
    for (int n = 0; n < kElements; ++n) {
      if (inside(place(n))) take(loaded[n], place(n));
    }
  } else {
    ForEachInWindow<kAxes>(s, dilation, origin, [&](const Place& k) { take(load(k), k); });
  }
  Write<kVec>(y, i, maximum.best);
  if constexpr (Before::kRelu) {
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      if (maximum.best.v[k] <= 0) maximum.where.v[k] = static_cast<I>(kStopsAtRelu);
    }
  }
  if (index != nullptr) reinterpret_cast<Indices<kVec, I>*>(index)[i] = maximum.where;
}

// Chooses the vector width for a tensor of elements of type T: launch.template
// operator()<kVec>(decoder, count, blocks, first), for the images from number `first`, which is a
// multiple of `together`. One launch has all images, unless their vectors are too many for 32-bit
// numbers.
template <typename T, int kAxes, typename Launch>
cudaError_t ForEach(int64_t outer, const Grid& grid, int64_t channels, bool aligned,
                    const Launch& launch, int64_t together = 1) {
  const int vec = aligned && channels % kWide<T> == 0 ? kWide<T> : 1;
  const int64_t in_image = grid.d * grid.h * grid.w * (channels / vec);
  if (outer * in_image == 0) return cudaSuccess;
  if (!Fits32(together * in_image)) return cudaErrorInvalidValue;
  const int64_t most = kMaxLaunchVectors / (together * in_image) * together;
  const int64_t images = std::max(most, together);
  const Decoder<uint32_t, kAxes> decode(grid, channels / vec);
  for (int64_t first = 0; first < outer; first += images) {
    const int64_t count = std::min(images, outer - first) * in_image;
    const unsigned blocks = static_cast<unsigned>(CeilDiv(count, kThreads));
    const uint32_t n = static_cast<uint32_t>(count);
    vec == 1 ? launch.template operator()<1>(decode, n, blocks, first)
             : launch.template operator()<kWide<T>>(decode, n, blocks, first);
  }
  return cudaGetLastError();
}
// The elements of an image of the pool's input, and of its output.
inline int64_t InImage(const PoolShape& s) { return int64_t{s.d} * s.h * s.w * s.channels; }
inline int64_t OutImage(const PoolShape& s) {
  return int64_t{s.out_d} * s.out_h * s.out_w * s.channels;
}

inline bool IsDilated(const PoolShape& s) {
  return s.dilation_d > 1 || s.dilation_h > 1 || s.dilation_w > 1;
}

// Calls run.template operator()<kAxes>() with the shape's number of axes.
template <typename Run>
cudaError_t WithAxes(const PoolShape& s, const Run& run) {
  return s.axes == 3 ? run.template operator()<3>() : run.template operator()<2>();
}

// The side of the window if it is one of those whose loads overlap, or 0.
inline int OverlappingSide(const PoolShape& s) {
  if (IsDilated(s) || s.kernel_h != s.kernel_w) return 0;
  if (s.axes == 3) return s.kernel_d == 2 && s.kernel_h == 2 ? 2 : 0;
  return s.kernel_h == 2 || s.kernel_h == 3 ? s.kernel_h : 0;
}

// Pools what `before` computes from x, in images of `image_channels` channels.
template <typename T, typename I, typename Before>
cudaError_t LaunchMaxPool(const PoolShape& s, int64_t image_channels, const Before& before,
                          bool aligned, const T* x, T* y, I* index, cudaStream_t stream) {
  const uint32_t turns = s.channels == image_channels ? 1 : static_cast<uint32_t>(image_channels);
  return WithAxes(s, [&]<int kAxes>() {
    return ForEach<T, kAxes>(
        s.outer, OutGrid(s), s.channels, aligned && AllAligned16(x, y, index),
        [&]<int kVec>(const auto& decode, uint32_t n, unsigned blocks, int64_t first) {
          const int64_t out = first * OutImage(s);
          const auto run = [&]<int kSide>() {
            MaxPoolKernel<kAxes, kVec, kSide><<<blocks, kThreads, 0, stream>>>(
                s, DilationDividers(s), decode, n, before, turns, Divider<uint32_t>(s.planes),
                x + first * InImage(s), y + out, index == nullptr ? nullptr : index + out);
          };
          if constexpr (kVec > 1) {
            const int side = OverlappingSide(s);
            if (side == 2) return run.template operator()<2>();
            if constexpr (kAxes == 2) {
              if (side == 3) return run.template operator()<3>();
            }
          }
          run.template operator()<0>();
        },
        turns == 1 ? 1 : turns * s.planes);
  });
}

// The windows that reach over position `at`: [first, last).
struct Windows {
  int first, last;
};
__device__ __forceinline__ Windows Covering(int at, int reach, const Divider<uint32_t>& stride,
                                            int padding, int out) {
  const int end = at + padding;
  const int first =
      end < reach ? 0 : static_cast<int>(stride.Quotient(static_cast<uint32_t>(end - reach))) + 1;
  return {first, min(static_cast<int>(stride.Quotient(static_cast<uint32_t>(end))) + 1, out)};
}
__device__ __forceinline__ int Reach(int kernel, int dilation) {
  return (kernel - 1) * dilation + 1;
}
// Where the position that is `distance` behind a window's first one is in the window, or -1 if it
// is between two elements.
__device__ __forceinline__ int ElementAt(int distance, const Divider<uint32_t>& dilation) {
  uint32_t between;
  const uint32_t element = dilation.Split(static_cast<uint32_t>(distance), between);
  return between == 0 ? static_cast<int>(element) : -1;
}

// Calls visit(offset in y in vectors, window, place in the window) for every window that has an
// element at the position, in the order of y.
template <int kAxes, int kVec, typename Index, typename Visit>
__device__ __forceinline__ void ForEachCovering(const PoolShape& s, const WindowDividers& by,
                                                const Position<Index>& p, const Visit& visit) {
  const Strides out = OutStrides<kAxes>(s, kVec);
  const Place at = PlaceOf(p);
  Windows planes = {0, 1};
  if constexpr (kAxes == 3)
    planes = Covering(at.d, Reach(s.kernel_d, s.dilation_d), by.stride.d, s.padding_d, s.out_d);
  const Windows rows =
      Covering(at.h, Reach(s.kernel_h, s.dilation_h), by.stride.h, s.padding_h, s.out_h);
  const Windows columns =
      Covering(at.w, Reach(s.kernel_w, s.dilation_w), by.stride.w, s.padding_w, s.out_w);
  const size_t base = p.outer * out.image + p.channel;
  ForEachPlane<kAxes>(planes.first, planes.last, [&](int od) {
    int kd = 0;
    if constexpr (kAxes == 3) kd = ElementAt(at.d - (od * s.stride_d - s.padding_d), by.dilation.d);
    if (kd < 0) return;
    for (int oh = rows.first; oh < rows.last; ++oh) {
      const int kh = ElementAt(at.h - (oh * s.stride_h - s.padding_h), by.dilation.h);
      if (kh < 0) continue;
      for (int ow = columns.first; ow < columns.last; ++ow) {
        const int kw = ElementAt(at.w - (ow * s.stride_w - s.padding_w), by.dilation.w);
        if (kw < 0) continue;
        visit(base + static_cast<size_t>(od) * out.plane + static_cast<size_t>(oh) * out.row +
                  static_cast<size_t>(ow) * out.pixel,
              Place{od, oh, ow}, Place{kd, kh, kw});
      }
    }
  });
}

// The gradient of the max pool's input at one position: that of every window of which it is the
// maximum.
template <int kAxes, int kVec, typename Index, typename T, typename I>
__device__ __forceinline__ Vec<kVec> GatherGradient(const PoolShape& s, const WindowDividers& by,
                                                    const Position<Index>& p, const T* dy,
                                                    const I* index) {
  Vec<kVec> sum = {};
  ForEachCovering<kAxes, kVec>(s, by, p, [&](size_t at, const Place&, const Place& element) {
    const int within = IndexInWindow(s, element);
    const Indices<kVec, I> winner = reinterpret_cast<const Indices<kVec, I>*>(index)[at];
    const Vec<kVec> g = Unpack(Read<kVec>(dy, at));
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      if (static_cast<int>(winner.v[k]) == within) sum.v[k] += g.v[k];
    }
  });
  return sum;
}

}  // namespace neap::kernels
