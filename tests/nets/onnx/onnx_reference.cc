#include "tests/nets/onnx/onnx_reference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/nets/onnx/reference_node.h"
#include "tests/nets/onnx/reference_norms.h"
#include "tests/nets/onnx/reference_resize.h"
#include "tests/nets/onnx/reference_windows.h"

namespace neap::testing {
namespace reference {
namespace {

T FromFile(const onnx_schema::Tensor& tensor) {
  T result = Zeros({tensor.dims().begin(), tensor.dims().end()});
  for (size_t i = 0; i < result.values.size(); ++i) {
    if (tensor.data_type() == onnx_schema::Tensor::INT64) {
      result.values[i] = static_cast<double>(tensor.int64_data(static_cast<int>(i)));
    } else {
      float value = 0;
      std::memcpy(&value, tensor.raw_data().data() + i * sizeof(float), sizeof(float));
      result.values[i] = value;
    }
  }
  return result;
}

T Mean(const Run& run, bool flat) {
  const T& x = run.in[0];
  T y = Zeros({x.dims[0], x.dims[1], 1, 1});
  Each(x, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    At(y, n, c, 0, 0) += At(x, n, c, h, w) / static_cast<double>(x.dims[2] * x.dims[3]);
  });
  if (flat) y.dims.resize(2);
  return y;
}

// Of the second axis: that of vectors, or the channels at each position, which a Transpose has made
// the last axis in the graph, but not here.
T Product(const T& x, const T& weight, bool transposed, const std::vector<double>& bias) {
  const int64_t out = weight.dims[transposed ? 0 : 1];
  const int64_t in = x.dims[1], positions = Count(x.dims) / x.dims[0] / in;
  Dims dims = x.dims;
  dims[1] = out;
  T y = Zeros(dims);
  for (int64_t n = 0; n < x.dims[0]; ++n)
    for (int64_t o = 0; o < out; ++o)
      for (int64_t p = 0; p < positions; ++p) {
        double sum = bias.empty() ? 0 : bias[static_cast<size_t>(o)];
        for (int64_t i = 0; i < in; ++i)
          sum += x.values[static_cast<size_t>((n * in + i) * positions + p)] *
                 weight.values[static_cast<size_t>(transposed ? o * in + i : i * out + o)];
        y.values[static_cast<size_t>((n * out + o) * positions + p)] = sum;
      }
  return y;
}

// The position of the channel of element i.
size_t Channel(const T& x, size_t i) {
  const auto channels = static_cast<size_t>(x.dims[1]);
  const size_t pixels = x.values.size() / static_cast<size_t>(x.dims[0]) / channels;
  return i / pixels % channels;
}

T BatchNormalization(const Run& run) {
  T y = run.in[0];
  for (size_t i = 0; i < y.values.size(); ++i) {
    const size_t c = Channel(y, i);
    const double deviation = std::sqrt(run.in[4].values[c] + run.Float("epsilon", 1e-5));
    y.values[i] =
        (y.values[i] - run.in[3].values[c]) / deviation * run.in[1].values[c] + run.in[2].values[c];
  }
  return y;
}

T Lrn(const Run& run) {
  const T& x = run.in[0];
  T y = x;
  const int64_t size = run.Int("size", 0);
  Each(x, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    double squares = 0;
    for (int64_t i = std::max<int64_t>(0, c - (size - 1) / 2);
         i <= std::min(x.dims[1] - 1, c + size / 2); ++i)
      squares += At(x, n, i, h, w) * At(x, n, i, h, w);
    const double scale =
        run.Float("bias", 1) + run.Float("alpha", 1e-4) / static_cast<double>(size) * squares;
    At(y, n, c, h, w) = At(x, n, c, h, w) / std::pow(scale, run.Float("beta", 0.75));
  });
  return y;
}

// The pads are those of all axes, or of height and width.
// The pixel at this place of a Pad whose mode is not constant.
int64_t PixelAt(int64_t place, int64_t extent, bool reflects) {
  if (!reflects) return std::clamp<int64_t>(place, 0, extent - 1);
  return place < 0 ? -place : place < extent ? place : 2 * (extent - 1) - place;
}

T Pad(const Run& run) {
  const T& x = run.in[0];
  const std::vector<double>& pads = run.in[1].values;
  const size_t rank = pads.size() / 2;
  const auto pad = [&](size_t i) { return static_cast<int64_t>(pads[i]); };
  const int64_t top = pad(rank - 2);
  const int64_t left = pad(rank - 1);
  T y = Zeros({x.dims[0], x.dims[1], x.dims[2] + top + pad(2 * rank - 2),
               x.dims[3] + left + pad(2 * rank - 1)});
  const std::string mode = run.Find("mode") == nullptr ? "constant" : run.Find("mode")->s();
  if (mode != "constant") {
    Each(y, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
      At(y, n, c, h, w) = At(x, n, c, PixelAt(h - top, x.dims[2], mode == "reflect"),
                             PixelAt(w - left, x.dims[3], mode == "reflect"));
    });
    return y;
  }
  Each(y, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    if (Inside(x, h - top, w - left)) At(y, n, c, h, w) = At(x, n, c, h - top, w - left);
  });
  return y;
}

T Slice(const Run& run) {
  const T& x = run.in[0];
  const auto first = [&](size_t i) { return static_cast<int64_t>(run.in[1].values[i]); };
  T y = Zeros({x.dims[0], x.dims[1], static_cast<int64_t>(run.in[2].values[0]) - first(0),
               static_cast<int64_t>(run.in[2].values[1]) - first(1)});
  Each(y, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    At(y, n, c, h, w) = At(x, n, c, h + first(0), w + first(1));
  });
  return y;
}

T Concat(const Run& run) {
  T y = run.in[0];
  y.values.clear();
  y.dims[1] = 0;
  for (const T& x : run.in) y.dims[1] += x.dims[1];
  for (int64_t n = 0; n < y.dims[0]; ++n)
    for (const T& x : run.in) {
      const auto each = static_cast<int64_t>(x.values.size()) / x.dims[0];
      y.values.insert(y.values.end(), x.values.begin() + n * each,
                      x.values.begin() + (n + 1) * each);
    }
  return y;
}

// The smaller input has one value for each element, channel, or column, or one for all.
T Elementwise(const Run& run, const std::function<double(double, double)>& f) {
  const bool first_is_larger = run.in[0].values.size() >= run.in[1].values.size();
  const T& x = run.in[first_is_larger ? 0 : 1];
  const T& other = run.in[first_is_larger ? 1 : 0];
  T y = x;
  for (size_t i = 0; i < y.values.size(); ++i) {
    const bool same = other.values.size() == x.values.size();
    const bool per_image = other.values.size() == static_cast<size_t>(x.dims[0] * x.dims[1]);
    const size_t at = same                       ? i
                      : other.values.size() == 1 ? 0
                      : per_image                ? i / (x.values.size() / other.values.size())
                                                 : Channel(x, i);
    y.values[i] =
        first_is_larger ? f(x.values[i], other.values[at]) : f(other.values[at], x.values[i]);
  }
  return y;
}

T Map(const Run& run, const std::function<double(double)>& f) {
  T y = run.in[0];
  for (double& value : y.values) value = f(value);
  return y;
}

T Flat(const Run& run) {
  const T& x = run.in[0];
  return {{x.dims[0], Count(x.dims) / x.dims[0]}, x.values};
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double SoftplusOf(double x) { return std::log1p(std::exp(x)); }
double ErfGelu(double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }
double TanhGelu(double x) {
  const double inner = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
  return x / 2 * (1 + std::tanh(inner));
}

T SoftmaxAlong(const Run& run, bool logarithm) {
  T x = run.in[0];
  const auto axis = static_cast<size_t>(run.Axis(-1, std::ssize(x.dims)));
  const auto length = static_cast<size_t>(x.dims[axis]);
  size_t step = 1;
  for (size_t i = axis + 1; i < x.dims.size(); ++i) step *= static_cast<size_t>(x.dims[i]);
  for (size_t first = 0; first < x.values.size(); ++first) {
    if (first / step % length != 0) continue;
    double sum = 0;
    for (size_t i = 0; i < length; ++i) sum += std::exp(x.values[first + i * step]);
    for (size_t i = 0; i < length; ++i) {
      double& value = x.values[first + i * step];
      value = logarithm ? value - std::log(sum) : std::exp(value) / sum;
    }
  }
  return x;
}

// Element i of the result is element i modulo the extent, along each axis.
T Repeated(const T& x, const Dims& dims) {
  T y = Zeros(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), from = 0, step = 1;
    for (size_t axis = dims.size(); axis-- > 0;) {
      from += rest % dims[axis] % x.dims[axis] * step;
      rest /= dims[axis];
      step *= x.dims[axis];
    }
    y.values[i] = x.values[static_cast<size_t>(from)];
  }
  return y;
}

// A Tile has the number of times for each axis, an Expand the least extents.
T RepeatedBy(const Run& run, bool has_counts) {
  Dims dims = run.in[0].dims;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const auto given = static_cast<int64_t>(run.in[1].values[axis]);
    dims[axis] = has_counts ? dims[axis] * given : std::max(dims[axis], given);
  }
  return Repeated(run.in[0], dims);
}

T RunNode(const Run& run) {
  const std::string& op = run.node.op_type();
  const auto at_most = [](double low, double high) {
    return [=](double x) { return std::clamp(x, low, high); };
  };
  if (op == "Conv") return Conv(run);
  if (op == "ConvTranspose") return ConvTranspose(run);
  if (op == "MaxPool") return Pool(run, true);
  if (op == "AveragePool") return Pool(run, false);
  if (op == "GlobalAveragePool") return Mean(run, false);
  if (op == "ReduceMean") return Mean(run, run.Int("keepdims", 1) == 0);
  if (op == "Gemm")
    return Product(run.in[0], run.in[1], run.Int("transB", 0) != 0,
                   run.in.size() > 2 ? run.in[2].values : std::vector<double>());
  if (op == "MatMul") return Product(run.in[0], run.in[1], false, {});
  if (op == "BatchNormalization") return BatchNormalization(run);
  if (op == "InstanceNormalization") return InstanceNormalization(run);
  if (op == "GroupNormalization") return GroupNormalization(run);
  if (op == "LayerNormalization") return LayerNormalization(run);
  if (op == "LRN") return Lrn(run);
  if (op == "Pad") return Pad(run);
  if (op == "Slice") return Slice(run);
  if (op == "Concat") return Concat(run);
  if (op == "Tile" || op == "Expand") return RepeatedBy(run, op == "Tile");
  if (op == "Resize") return Resize(run, false);
  if (op == "Upsample") return Resize(run, true);
  if (op == "DepthToSpace") return DepthToSpace(run);
  if (op == "SpaceToDepth") return SpaceToDepth(run);
  if (op == "Add" || op == "Sum") {
    Run sum = {run.node, {run.in[0]}};
    for (size_t i = 1; i < run.in.size(); ++i) {
      sum.in.resize(1);
      sum.in.push_back(run.in[i]);
      sum.in[0] = Elementwise(sum, std::plus<>());
    }
    return sum.in[0];
  }
  if (op == "Mul") return Elementwise(run, std::multiplies<>());
  if (op == "Sub") return Elementwise(run, std::minus<>());
  if (op == "Pow") return Elementwise(run, [](double x, double y) { return std::pow(x, y); });
  if (op == "PRelu")
    return Elementwise(run, [](double x, double slope) { return x > 0 ? x : slope * x; });
  if (op == "Div") return Elementwise(run, std::divides<>());
  if (op == "Flatten" || op == "Reshape" || op == "Squeeze") return Flat(run);
  for (const char* const same : {"Identity", "Dropout", "Cast", "Transpose", "Split"})
    if (op == same) return run.in[0];
  if (op == "Neg") return Map(run, [](double x) { return -x; });
  if (op == "Relu") return Map(run, [](double x) { return std::max(x, 0.0); });
  if (op == "Softmax" || op == "LogSoftmax") return SoftmaxAlong(run, op == "LogSoftmax");
  if (op == "Sigmoid") return Map(run, Sigmoid);
  if (op == "Tanh") return Map(run, [](double x) { return std::tanh(x); });
  if (op == "Erf") return Map(run, [](double x) { return std::erf(x); });
  if (op == "Softplus") return Map(run, SoftplusOf);
  if (op == "Mish") return Map(run, [](double x) { return x * std::tanh(SoftplusOf(x)); });
  if (op == "Gelu") {
    const bool is_tanh =
        run.Find("approximate") != nullptr && run.Find("approximate")->s() == "tanh";
    return Map(run, is_tanh ? TanhGelu : ErfGelu);
  }
  if (op == "Elu") {
    const double alpha = run.Float("alpha", 1);
    return Map(run, [=](double x) { return x > 0 ? x : alpha * std::expm1(x); });
  }
  if (op == "LeakyRelu") {
    const double slope = run.Float("alpha", 0.01);
    return Map(run, [=](double x) { return x < 0 ? slope * x : x; });
  }
  if (op == "Clip") return Map(run, at_most(run.in[1].values[0], run.in[2].values[0]));
  if (op == "HardSigmoid") {
    const double alpha = run.Float("alpha", 0.2);
    const double beta = run.Float("beta", 0.5);
    return Map(run, [=](double x) { return std::clamp(alpha * x + beta, 0.0, 1.0); });
  }
  if (op == "HardSwish")
    return Map(run, [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); });
  FAIL("the reference does not know " << op);
  return {};
}

}  // namespace
}  // namespace reference

ReferenceTensor RunReference(const onnx_schema::Graph& graph, const ReferenceTensor& x) {
  std::map<std::string, ReferenceTensor> values = {{"x", x}};
  for (const auto& tensor : graph.initializer())
    values[tensor.name()] = reference::FromFile(tensor);
  for (const onnx_schema::Node& node : graph.node()) {
    reference::Run run = {node, {}};
    // A shape that nodes compute is not needed: it always makes a vector of each image.
    const bool is_shape =
        !values.contains(node.input_size() == 0 ? "" : node.input(0)) || node.op_type() == "Shape";
    if (is_shape) continue;
    for (const std::string& input : node.input()) run.in.push_back(values[input]);
    values[node.output(0)] = reference::RunNode(run);
  }
  return values.at(graph.output(0).name());
}

}  // namespace neap::testing
