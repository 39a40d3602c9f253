#include "tests/nets/onnx/array_reference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/nets/onnx/reference_node.h"

namespace neap::testing {
namespace arrays {
namespace {

using reference::Count;
using reference::Dims;
using reference::Run;
using reference::T;
using reference::Zeros;

T Read(const onnx_schema::Tensor& tensor) {
  T result = Zeros({tensor.dims().begin(), tensor.dims().end()});
  for (size_t i = 0; i < result.values.size(); ++i) {
    if (tensor.data_type() == onnx_schema::Tensor::INT64) {
      result.values[i] = static_cast<double>(tensor.int64_data(static_cast<int>(i)));
    } else {
      float value = 0;
      std::memcpy(&value, tensor.raw_data().data() + i * sizeof(float), sizeof(float));
      result.values[i] = static_cast<double>(value);
    }
  }
  return result;
}

Dims Integers(const T& tensor) { return {tensor.values.begin(), tensor.values.end()}; }

Dims Strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// The tensor of these extents whose elements are `steps` apart in x, from `offset` on.
T Taken(const T& x, const Dims& dims, const Dims& steps, int64_t offset = 0) {
  T y = Zeros(dims);
  Dims at(dims.size(), 0);
  for (double& value : y.values) {
    int64_t from = offset;
    for (size_t i = 0; i < at.size(); ++i) from += at[i] * steps[i];
    value = x.values[static_cast<size_t>(from)];
    for (size_t i = at.size(); i-- > 0;) {
      if (++at[i] < dims[i]) break;
      at[i] = 0;
    }
  }
  return y;
}

T Broadcast(const T& x, const Dims& dims) {
  Dims steps(dims.size(), 0);
  const Dims own = Strides(x.dims);
  const size_t more = dims.size() - x.dims.size();
  for (size_t i = 0; i < x.dims.size(); ++i) steps[more + i] = x.dims[i] == 1 ? 0 : own[i];
  return Taken(x, dims, steps);
}

Dims Common(const Dims& a, const Dims& b) {
  Dims dims = a.size() > b.size() ? a : b;
  for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i)
    dims[dims.size() - i] = std::max(a[a.size() - i], b[b.size() - i]);
  return dims;
}

T Both(const Run& run, const std::function<double(double, double)>& f) {
  const Dims dims = Common(run.in[0].dims, run.in[1].dims);
  T a = Broadcast(run.in[0], dims);
  const T b = Broadcast(run.in[1], dims);
  for (size_t i = 0; i < a.values.size(); ++i) a.values[i] = f(a.values[i], b.values[i]);
  return a;
}

T MatMul(const T& a, const T& b) {
  const Dims lead = Common({a.dims.begin(), a.dims.end() - 2}, {b.dims.begin(), b.dims.end() - 2});
  const int64_t rows = a.dims[a.dims.size() - 2], inner = a.dims.back(), columns = b.dims.back();
  Dims of_a = lead, of_b = lead, of_y = lead;
  of_a.insert(of_a.end(), {rows, inner});
  of_b.insert(of_b.end(), {inner, columns});
  of_y.insert(of_y.end(), {rows, columns});
  const T left = Broadcast(a, of_a), right = Broadcast(b, of_b);
  T y = Zeros(of_y);
  for (int64_t n = 0; n < Count(lead); ++n)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t k = 0; k < inner; ++k)
          y.values[static_cast<size_t>((n * rows + i) * columns + j)] +=
              left.values[static_cast<size_t>((n * rows + i) * inner + k)] *
              right.values[static_cast<size_t>((n * inner + k) * columns + j)];
  return y;
}

T Transpose(const Run& run) {
  const Dims order = run.Ints("perm", {});
  const Dims own = Strides(run.in[0].dims);
  Dims dims, steps;
  for (const int64_t axis : order) {
    dims.push_back(run.in[0].dims[static_cast<size_t>(axis)]);
    steps.push_back(own[static_cast<size_t>(axis)]);
  }
  return Taken(run.in[0], dims, steps);
}

T Reshape(const Run& run) {
  T y = run.in[0];
  Dims dims = Integers(run.in[1]);
  int64_t known = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) dims[i] = y.dims[i];
    if (dims[i] > 0) known *= dims[i];
  }
  for (int64_t& extent : dims) {
    if (extent < 0) extent = Count(y.dims) / known;
  }
  y.dims = dims;
  return y;
}

// So many entries along the axis, from the first on, `step` apart.
T Range(const T& x, size_t axis, int64_t first, int64_t count, int64_t step = 1) {
  Dims dims = x.dims, strides = Strides(x.dims);
  dims[axis] = count;
  const int64_t offset = first * strides[axis];
  strides[axis] *= step;
  return Taken(x, dims, strides, offset);
}

T Slice(const Run& run) {
  T y = run.in[0];
  for (size_t i = 0; i < run.in[1].values.size(); ++i) {
    const auto axis = static_cast<size_t>(run.in[3].values[i]);
    const auto first = static_cast<int64_t>(run.in[1].values[i]);
    const int64_t last = std::min<int64_t>(static_cast<int64_t>(run.in[2].values[i]), y.dims[axis]);
    const int64_t step = run.in.size() < 5 ? 1 : static_cast<int64_t>(run.in[4].values[i]);
    y = Range(y, axis, first, (last - first + step - 1) / step, step);
  }
  return y;
}

T Concat(const Run& run) {
  const auto axis = static_cast<size_t>(run.Axis(0, std::ssize(run.in[0].dims)));
  T y = run.in[0];
  for (size_t i = 1; i < run.in.size(); ++i) {
    Dims dims = y.dims;
    dims[axis] += run.in[i].dims[axis];
    const int64_t inner = Strides(dims)[axis];
    T joined = {dims, {}};
    for (int64_t n = 0; n < Count(dims) / (dims[axis] * inner); ++n) {
      for (const T* part : std::vector<const T*>{&y, &run.in[i]}) {
        const int64_t each = part->dims[axis] * inner;
        joined.values.insert(joined.values.end(), part->values.begin() + n * each,
                             part->values.begin() + (n + 1) * each);
      }
    }
    y = joined;
  }
  return y;
}

T Softmax(T x) {
  const auto length = static_cast<size_t>(x.dims.back());
  for (size_t first = 0; first < x.values.size(); first += length) {
    double sum = 0;
    for (size_t i = first; i < first + length; ++i) sum += std::exp(x.values[i]);
    for (size_t i = first; i < first + length; ++i) x.values[i] = std::exp(x.values[i]) / sum;
  }
  return x;
}

T LayerNorm(const Run& run) {
  T y = run.in[0];
  const auto length = static_cast<size_t>(y.dims.back());
  for (size_t first = 0; first < y.values.size(); first += length) {
    double mean = 0, squares = 0;
    for (size_t i = first; i < first + length; ++i) mean += y.values[i];
    mean /= static_cast<double>(length);
    for (size_t i = first; i < first + length; ++i)
      squares += (y.values[i] - mean) * (y.values[i] - mean);
    const double deviation =
        std::sqrt(squares / static_cast<double>(length) + run.Float("epsilon", 1e-5));
    for (size_t i = 0; i < length; ++i)
      y.values[first + i] = (y.values[first + i] - mean) / deviation * run.in[1].values[i] +
                            (run.in.size() > 2 ? run.in[2].values[i] : 0);
  }
  return y;
}

T Mean(const Run& run) {
  T y = run.in[0];
  Dims axes = run.Ints("axes", {});
  const Dims given = y.dims;
  for (const int64_t axis : axes) {
    const auto at = static_cast<size_t>(axis);
    T sum = Range(y, at, 0, 1);
    std::fill(sum.values.begin(), sum.values.end(), 0.0);
    for (int64_t i = 0; i < y.dims[at]; ++i) {
      const T part = Range(y, at, i, 1);
      for (size_t k = 0; k < sum.values.size(); ++k) sum.values[k] += part.values[k];
    }
    for (double& value : sum.values) value /= static_cast<double>(y.dims[at]);
    y = sum;
  }
  std::sort(axes.rbegin(), axes.rend());
  for (const int64_t axis : axes) {
    if (run.Int("keepdims", 1) == 0) y.dims.erase(y.dims.begin() + axis);
  }
  return y;
}

T Tile(const Run& run) {
  T y = run.in[0];
  for (size_t axis = 0; axis < y.dims.size(); ++axis) {
    Dims with_copies = y.dims, tiled = y.dims;
    const auto count = static_cast<int64_t>(run.in[1].values[axis]);
    y.dims.insert(y.dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    with_copies.insert(with_copies.begin() + static_cast<std::ptrdiff_t>(axis), count);
    tiled[axis] *= count;
    y = Broadcast(y, with_copies);
    y.dims = tiled;
  }
  return y;
}

// A convolution of patches: kernel and stride are the same.
T Patches(const Run& run) {
  const T &x = run.in[0], &weight = run.in[1];
  const int64_t out = weight.dims[0], in = weight.dims[1], size = weight.dims[2];
  T y = Zeros({x.dims[0], out, x.dims[2] / size, x.dims[3] / size});
  reference::Each(y, [&](int64_t n, int64_t o, int64_t h, int64_t w) {
    double sum = run.in.size() > 2 ? run.in[2].values[static_cast<size_t>(o)] : 0;
    for (int64_t c = 0; c < in; ++c)
      for (int64_t i = 0; i < size; ++i)
        for (int64_t j = 0; j < size; ++j)
          sum += reference::At(x, n, c, h * size + i, w * size + j) *
                 reference::At(weight, o, c, i, j);
    reference::At(y, n, o, h, w) = sum;
  });
  return y;
}

T Gather(const Run& run) {
  const auto axis = static_cast<size_t>(run.Axis(0, std::ssize(run.in[0].dims)));
  T y = Range(run.in[0], axis, static_cast<int64_t>(run.in[1].values[0]), 1);
  const auto place = y.dims.erase(y.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  y.dims.insert(place, run.in[1].dims.begin(), run.in[1].dims.end());
  return y;
}

T Gemm(const Run& run) {
  T weight = run.in[1];
  if (run.Int("transB", 0) != 0)
    weight = Taken(weight, {weight.dims[1], weight.dims[0]}, {1, weight.dims[1]});
  const T product = MatMul(run.in[0], weight);
  if (run.in.size() < 3) return product;
  return Both({run.node, {product, run.in[2]}}, std::plus<>());
}

std::vector<T> Split(const Run& run) {
  const auto axis = static_cast<size_t>(run.Axis(0, std::ssize(run.in[0].dims)));
  std::vector<T> parts;
  int64_t first = 0;
  for (const int64_t count : Integers(run.in[1])) {
    parts.push_back(Range(run.in[0], axis, first, count));
    first += count;
  }
  return parts;
}

T Each(T x, const std::function<double(double)>& f) {
  for (double& value : x.values) value = f(value);
  return x;
}

T RunNode(const Run& run) {
  const std::string& op = run.node.op_type();
  if (op == "Conv") return Patches(run);
  if (op == "MatMul") return MatMul(run.in[0], run.in[1]);
  if (op == "Gemm") return Gemm(run);
  if (op == "Transpose") return Transpose(run);
  if (op == "Reshape") return Reshape(run);
  if (op == "Slice") return Slice(run);
  if (op == "Concat") return Concat(run);
  if (op == "Gather") return Gather(run);
  if (op == "Softmax") return Softmax(run.in[0]);
  if (op == "LayerNormalization") return LayerNorm(run);
  if (op == "ReduceMean") return Mean(run);
  if (op == "ReduceL2") {
    T y = run.in[0];
    const int64_t length = y.dims.back();
    y.dims.back() = 1;
    y.values.assign(y.values.size() / static_cast<size_t>(length), 0);
    for (size_t i = 0; i < run.in[0].values.size(); ++i)
      y.values[i / static_cast<size_t>(length)] += run.in[0].values[i] * run.in[0].values[i];
    return Each(y, [](double sum) { return std::sqrt(sum); });
  }
  if (op == "Clip")
    return Each(run.in[0], [&](double x) { return std::max(x, run.in[1].values[0]); });
  if (op == "Tile") return Tile(run);
  if (op == "Expand") return Broadcast(run.in[0], Common(run.in[0].dims, Integers(run.in[1])));
  if (op == "Add") return Both(run, std::plus<>());
  if (op == "Max") return Both(run, [](double a, double b) { return std::max(a, b); });
  if (op == "Mul") return Both(run, std::multiplies<>());
  if (op == "Pow") return Both(run, [](double a, double b) { return std::pow(a, b); });
  if (op == "Sqrt") return Each(run.in[0], [](double x) { return std::sqrt(x); });
  if (op == "Sub") return Both(run, std::minus<>());
  if (op == "Div") return Both(run, std::divides<>());
  if (op == "Neg") return Each(run.in[0], [](double x) { return -x; });
  if (op == "Relu") return Each(run.in[0], [](double x) { return std::max(x, 0.0); });
  FAIL("the reference of arrays does not know " << op);
  return {};
}

}  // namespace
}  // namespace arrays

ReferenceTensor RunArrays(const onnx_schema::Graph& graph, const ReferenceTensor& x) {
  std::map<std::string, ReferenceTensor> values = {{"x", x}};
  for (const auto& tensor : graph.initializer()) values[tensor.name()] = arrays::Read(tensor);
  for (const onnx_schema::Node& node : graph.node()) {
    reference::Run run = {node, {}};
    for (const std::string& input : node.input()) run.in.push_back(values.at(input));
    std::vector<ReferenceTensor> outputs;
    if (node.op_type() == "Split") {
      outputs = arrays::Split(run);
    } else {
      outputs.push_back(arrays::RunNode(run));
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      values[node.output(static_cast<int>(i))] = outputs[i];
  }
  return values.at(graph.output(0).name());
}

}  // namespace neap::testing
