#include "tests/nets/onnx/onnx_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/target_loss.h"
#include "neap/memory/create_session.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/array_reference.h"
#include "tests/nets/onnx/onnx_reference.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;

std::vector<float> RandomImages(int64_t count) {
  std::vector<float> images;
  uint32_t state = 7;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    images.push_back(static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1);
  }
  return images;
}

// {N, C, H, W} or {N, C} to the softmax over the second axis.
std::vector<double> SoftmaxOf(const ReferenceTensor& scores) {
  std::vector<double> result(scores.values.size());
  const int64_t channels = scores.dims[1];
  const int64_t pixels = std::ssize(scores.values) / scores.dims[0] / channels;
  for (int64_t n = 0; n < scores.dims[0]; ++n) {
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      const auto at = [&](int64_t c) {
        return static_cast<size_t>((n * channels + c) * pixels + pixel);
      };
      double sum = 0;
      for (int64_t c = 0; c < channels; ++c) sum += std::exp(scores.values[at(c)]);
      for (int64_t c = 0; c < channels; ++c) result[at(c)] = std::exp(scores.values[at(c)]) / sum;
    }
  }
  return result;
}

std::vector<float> Predicted(const std::string& path, const nets::OnnxOptions& options,
                             const std::vector<float>& images) {
  const absl::StatusOr<OnnxModel> model = ReadOnnx(path, options);
  REQUIRE_MESSAGE(model.ok(), model.status().ToString());
  const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  absl::StatusOr<Session> session =
      CreateSession(model->graph, *device, {}, {.inference_only = true});
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  REQUIRE(session->LoadWeights(model->weights).ok());
  return session->Predict(images).value().probabilities;
}

void CheckClose(const std::vector<float>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  double largest = 0;
  for (size_t i = 0; i < want.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(got[i]) - want[i]));
  CHECK(largest < 2e-6);
}

}  // namespace

void CheckPredicts(OnnxBuilder& builder, Ints dims, Layout layout) {
  const ScratchDirectory directory;
  dims[0] = 3;
  const std::vector<float> images = RandomImages(Elements(dims));
  const std::vector<float> got =
      Predicted(builder.Write(directory), {.batch = dims[0], .layout = layout}, images);
  CheckClose(got, SoftmaxOf(RunReference(builder.graph(), {dims, {images.begin(), images.end()}})));
}

void CheckComputes(const OnnxBuilder& builder, Ints dims, const Layer& loss) {
  const ScratchDirectory directory;
  dims[0] = 3;
  const std::vector<float> images = RandomImages(Elements(dims));
  const std::vector<float> got =
      Predicted(builder.Write(directory), {.batch = dims[0], .loss = loss}, images);
  OnnxBuilder same = builder;
  CheckClose(got, RunReference(same.graph(), {dims, {images.begin(), images.end()}}).values);
}

void CheckArrays(OnnxBuilder& builder, int64_t batch) {
  ReferenceTensor x;
  for (const auto& dim : builder.graph().input(0).type().tensor_type().shape().dim())
    x.dims.push_back(dim.dim_value());
  const int64_t each = Elements(x.dims);
  const std::vector<float> images = RandomImages(each / x.dims[0] * batch);
  std::vector<double> want;
  for (auto first = images.begin(); first != images.end(); first += each) {
    x.values.assign(first, first + each);
    const ReferenceTensor y = RunArrays(builder.graph(), x);
    want.insert(want.end(), y.values.begin(), y.values.end());
  }
  const ScratchDirectory directory;
  const std::string path = builder.Write(directory);
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const std::vector<float> got =
        Predicted(path, {.batch = batch, .layout = layout, .loss = MeanSquaredError{}}, images);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i)
      CHECK(static_cast<double>(got[i]) == doctest::Approx(want[i]).epsilon(1e-4));
  }
}

void CheckOneNode(const OneNode& given) {
  CAPTURE(given.op);
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    OnnxBuilder model(given.image);
    std::vector<std::string> inputs = {"x"};
    if (!given.weight.empty()) inputs.push_back(model.Random("layer.weight", given.weight));
    if (given.bias) {
      const bool transposed = given.op == "ConvTranspose";
      inputs.push_back(model.Random("layer.bias", {given.weight[transposed ? 1 : 0]}));
    }
    model.EndWithClasses(model.Node(given.op, inputs, given.attributes), given.outputs);
    CheckPredicts(model, given.image, layout);
  }
}

NamedValues WeightsOf(const Graph& net) {
  const ResolvedGraph resolved = Resolve(net, Mode::kInference).value();
  NamedValues weights;
  for (const ResolvedLayer& layer : resolved.layers) {
    for (const ParamSpec& param : layer.spec.params) {
      std::vector<float>& values = weights[ParamName(layer, param)];
      for (int64_t i = 0; i < param.tensor.elements(); ++i)
        values.push_back(static_cast<float>((i + std::ssize(weights)) * 5 % 13) / 8 - 0.5F);
    }
  }
  return weights;
}

Convolution LinearOfTokens(int64_t channels, bool bias) {
  return {.out_channels = channels,
          .kernel = Extents::Of({1}),
          .stride = Extents::Of({1}),
          .padding = Extents::Of({0}),
          .dilation = Extents::Of({1}),
          .bias = bias};
}

}  // namespace neap::testing
