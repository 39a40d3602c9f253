#include "tests/nets/onnx/reference_windows.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace neap::testing::reference {
namespace {

// A window along any number of spatial axes.
struct Sliding {
  Dims kernel, stride, dilation, before, after;

  // The place in the tensor of an element of the window at this position.
  Dims Place(const Dims& position, const Dims& element) const {
    Dims place;
    for (size_t i = 0; i < position.size(); ++i)
      place.push_back(position[i] * stride[i] - before[i] + element[i] * dilation[i]);
    return place;
  }
};

Sliding SlidingOf(const Run& run, const Dims& kernel) {
  const size_t axes = kernel.size();
  const Dims pads = run.Ints("pads", Dims(2 * axes, 0));
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(axes);
  return {.kernel = kernel,
          .stride = run.Ints("strides", Dims(axes, 1)),
          .dilation = run.Ints("dilations", Dims(axes, 1)),
          .before = {pads.begin(), middle},
          .after = {middle, pads.end()}};
}

Dims SpatialOf(const T& t) { return {t.dims.begin() + 2, t.dims.end()}; }

Dims WithSpatial(int64_t n, int64_t c, const Dims& spatial) {
  Dims dims = {n, c};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return dims;
}

// Rounded up, a window that would begin behind the image is left out.
Dims Positions(const Dims& sizes, const Sliding& s, bool ceil) {
  Dims positions;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t slack =
        sizes[i] + s.before[i] + s.after[i] - s.dilation[i] * (s.kernel[i] - 1) - 1;
    const int64_t last = (slack + (ceil ? s.stride[i] - 1 : 0)) / s.stride[i];
    const bool begins_behind = ceil && last * s.stride[i] >= sizes[i] + s.before[i];
    positions.push_back(begins_behind ? last : last + 1);
  }
  return positions;
}

double& At(T& t, int64_t n, int64_t c, const Dims& place) {
  int64_t index = n * t.dims[1] + c;
  for (size_t i = 0; i < place.size(); ++i) index = index * t.dims[2 + i] + place[i];
  return t.values[static_cast<size_t>(index)];
}
double At(const T& t, int64_t n, int64_t c, const Dims& place) {
  return At(const_cast<T&>(t), n, c, place);
}

// Whether the place is in a tensor of these sizes.
bool Inside(const Dims& sizes, const Dims& place) {
  for (size_t i = 0; i < place.size(); ++i) {
    if (place[i] < 0 || place[i] >= sizes[i]) return false;
  }
  return true;
}

// Calls visit(place) for every place in a tensor of these sizes.
template <typename Visit>
void EachPlace(const Dims& sizes, const Visit& visit) {
  Dims place(sizes.size(), 0);
  for (int64_t left = Count(sizes); left > 0; --left) {
    visit(place);
    for (size_t axis = sizes.size(); axis-- > 0;) {
      if (++place[axis] < sizes[axis]) break;
      place[axis] = 0;
    }
  }
}

// Calls visit(n, c, place) for every element.
template <typename Visit>
void EachElement(const T& t, const Visit& visit) {
  for (int64_t n = 0; n < t.dims[0]; ++n)
    for (int64_t c = 0; c < t.dims[1]; ++c)
      EachPlace(SpatialOf(t), [&](const Dims& place) { visit(n, c, place); });
}

}  // namespace

T Conv(const Run& run) {
  const T& x = run.in[0];
  const T& weight = run.in[1];
  const Sliding window = SlidingOf(run, SpatialOf(weight));
  const Dims sizes = SpatialOf(x);
  const int64_t groups = run.Int("group", 1);
  T y = Zeros(WithSpatial(x.dims[0], weight.dims[0], Positions(sizes, window, false)));
  EachElement(y, [&](int64_t n, int64_t o, const Dims& position) {
    double sum = run.in.size() > 2 ? run.in[2].values[static_cast<size_t>(o)] : 0;
    const int64_t first = o / (weight.dims[0] / groups) * weight.dims[1];
    EachPlace(window.kernel, [&](const Dims& element) {
      const Dims place = window.Place(position, element);
      for (int64_t c = 0; Inside(sizes, place) && c < weight.dims[1]; ++c)
        sum += At(x, n, first + c, place) * At(weight, o, c, element);
    });
    At(y, n, o, position) = sum;
  });
  return y;
}

T ConvTranspose(const Run& run) {
  const T& x = run.in[0];
  const T& weight = run.in[1];
  const Sliding window = SlidingOf(run, SpatialOf(weight));
  const Dims more = run.Ints("output_padding", Dims(window.kernel.size(), 0));
  Dims sizes;
  for (size_t i = 0; i < more.size(); ++i) {
    const int64_t reached = (x.dims[2 + i] - 1) * window.stride[i] + window.kernel[i];
    sizes.push_back(reached - window.before[i] - window.after[i] + more[i]);
  }
  T y = Zeros(WithSpatial(x.dims[0], weight.dims[1], sizes));
  if (run.in.size() > 2) {
    EachElement(y, [&](int64_t n, int64_t c, const Dims& place) {
      At(y, n, c, place) = run.in[2].values[static_cast<size_t>(c)];
    });
  }
  EachElement(x, [&](int64_t n, int64_t c, const Dims& position) {
    EachPlace(window.kernel, [&](const Dims& element) {
      const Dims place = window.Place(position, element);
      for (int64_t o = 0; Inside(sizes, place) && o < weight.dims[1]; ++o)
        At(y, n, o, place) += At(x, n, c, position) * At(weight, c, o, element);
    });
  });
  return y;
}

T Pool(const Run& run, bool max) {
  const T& x = run.in[0];
  const Sliding window = SlidingOf(run, run.Ints("kernel_shape", {}));
  const Dims sizes = SpatialOf(x);
  const bool count_padding = run.Int("count_include_pad", 0) != 0;
  T y = Zeros(
      WithSpatial(x.dims[0], x.dims[1], Positions(sizes, window, run.Int("ceil_mode", 0) != 0)));
  EachElement(y, [&](int64_t n, int64_t c, const Dims& position) {
    double largest = -std::numeric_limits<double>::infinity();
    double sum = 0;
    double count = 0;
    EachPlace(window.kernel, [&](const Dims& element) {
      const Dims place = window.Place(position, element);
      const bool is_inside = Inside(sizes, place);
      if (is_inside) {
        largest = std::max(largest, At(x, n, c, place));
        sum += At(x, n, c, place);
      }
      bool in_padded = true;
      for (size_t i = 0; i < place.size(); ++i)
        in_padded = in_padded && place[i] < sizes[i] + window.after[i];
      if (count_padding ? in_padded : is_inside) count += 1;
    });
    At(y, n, c, position) = max ? largest : sum / count;
  });
  return y;
}

}  // namespace neap::testing::reference
