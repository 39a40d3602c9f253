// Convolutions, poolings and paddings of ONNX files.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/graph/graph.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/nets/onnx/onnx_checks.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;

TEST_CASE("convolutions of all strides, paddings, dilations and groups compute what ONNX says") {
  CheckOneNode({"Conv", {2, 3, 7, 6}, {4, 3, 3, 2}, {}, 4 * 5 * 5});
  CheckOneNode({"Conv",
                {2, 4, 7, 9},
                {6, 2, 3, 3},
                {{"pads", Ints{1, 2, 1, 2}},
                 {"strides", Ints{2, 1}},
                 {"group", int64_t{2}},
                 {"kernel_shape", Ints{3, 3}}},
                6 * 4 * 11,
                true});
  CheckOneNode({"Conv",
                {1, 4, 8, 8},
                {4, 1, 3, 3},
                {{"dilations", Ints{2, 1}}, {"group", int64_t{4}}},
                4 * 4 * 6});
  // An uneven padding of which the window does not reach the end.
  CheckOneNode({"Conv",
                {1, 2, 6, 6},
                {3, 2, 3, 3},
                {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 0, 0}}},
                3 * 3 * 3});
  CheckOneNode({"ConvTranspose",
                {2, 3, 4, 5},
                {3, 2, 3, 4},
                {{"strides", Ints{2, 3}}, {"pads", Ints{1, 0, 1, 0}}},
                2 * 7 * 16,
                true});
  CheckOneNode({"ConvTranspose",
                {2, 3, 4, 5},
                {3, 2, 3, 4},
                {{"strides", Ints{2, 3}}, {"pads", Ints{2, 0, 1, 3}}},
                2 * 6 * 13,
                true});
  CheckOneNode(
      {"ConvTranspose",
       {2, 3, 4, 5},
       {3, 2, 3, 3},
       {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"output_padding", Ints{1, 0}}},
       2 * 8 * 9,
       true});
}

TEST_CASE("poolings compute what ONNX says") {
  CheckOneNode({"MaxPool",
                {2, 3, 7, 8},
                {},
                {{"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 0, 1, 0}}},
                3 * 4 * 4});
  CheckOneNode({"MaxPool",
                {2, 3, 7, 7},
                {},
                {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", int64_t{1}}},
                3 * 3 * 3});
  CheckOneNode({"MaxPool",
                {2, 3, 8, 6},
                {},
                {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", int64_t{1}}},
                3 * 4 * 3});
  // Rounded up, a third window would begin in the padding behind the image.
  CheckOneNode({"MaxPool",
                {2, 3, 5, 5},
                {},
                {{"kernel_shape", Ints{2, 2}},
                 {"strides", Ints{3, 3}},
                 {"pads", Ints{0, 1, 1, 0}},
                 {"ceil_mode", int64_t{1}}},
                3 * 2 * 2});
  for (const int64_t counts : {0, 1}) {
    CheckOneNode({"AveragePool",
                  {2, 3, 7, 8},
                  {},
                  {{"kernel_shape", Ints{3, 3}},
                   {"strides", Ints{2, 1}},
                   {"pads", Ints{1, 1, 1, 1}},
                   {"count_include_pad", counts}},
                  3 * 4 * 8});
  }
  CheckOneNode({"AveragePool", {2, 3, 4, 4}, {}, {{"kernel_shape", Ints{1, 1}}}, 3 * 4 * 4});
  // The same positions with and without ceil_mode.
  CheckOneNode({"AveragePool",
                {2, 3, 5, 5},
                {},
                {{"kernel_shape", Ints{3, 3}},
                 {"strides", Ints{2, 2}},
                 {"pads", Ints{1, 1, 1, 1}},
                 {"count_include_pad", int64_t{1}},
                 {"ceil_mode", int64_t{1}}},
                3 * 3 * 3});
  for (const int64_t counts : {0, 1}) {
    CheckOneNode({"AveragePool",
                  {2, 3, 8, 7},
                  {},
                  {{"kernel_shape", Ints{3, 4}},
                   {"strides", Ints{2, 3}},
                   {"pads", Ints{0, 1, 0, 1}},
                   {"count_include_pad", counts},
                   {"ceil_mode", int64_t{1}}},
                  3 * 4 * 3});
  }
  CheckOneNode({"GlobalAveragePool", {2, 6, 5, 4}, {}, {}, 6});
  CheckOneNode({"ReduceMean", {2, 6, 5, 4}, {}, {{"axes", Ints{-1, 2}}}, 6});
}

// Every layer that is neither input nor loss, as "name: type, parameters".
std::vector<std::string> InnerLayers(const OnnxBuilder& model) {
  const ScratchDirectory directory;
  const absl::StatusOr<OnnxModel> read = ReadOnnx(model.Write(directory), {.batch = 2});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  std::vector<std::string> lines;
  for (const GraphLayer& layer : read->graph.layers()) {
    if (layer.role != LayerRole::kInner || layer.name == "classes") continue;
    lines.push_back(absl::StrCat(layer.name, ": ", std::string(layer.layer.type()), " ",
                                 layer.layer.Parameters()));
  }
  return lines;
}

// A model of one operator on images of this size, whose layers and result are checked.
void CheckWindow(const std::string& op, int64_t size, Attributes attributes, int64_t outputs,
                 const std::vector<std::string>& layers) {
  const Ints image = {2, 3, size, size};
  OnnxBuilder model(image);
  std::vector<std::string> inputs = {"x"};
  if (op == "Conv") inputs.push_back(model.Random("c.weight", {3, 3, 3, 3}));
  const std::string y = model.Node(op, inputs, std::move(attributes));
  model.EndWithClasses(y, 3 * outputs * outputs);
  CAPTURE(y);
  CHECK(InnerLayers(model) == layers);
  CheckPredicts(model, image);
  CheckPredicts(model, image, Layout::kChannelsLast);
}

const char* const kPlainConvolution =
    "c: convolution out_channels=3 kernel=3x3 stride=2x2 padding=0x0 dilation=1x1 groups=1 "
    "bias=false";

TEST_CASE("a convolution with uneven padding has the uneven part in zeros before it") {
  CheckWindow("Conv", 6, {{"strides", Ints{2, 2}}, {"pads", Ints{0, 0, 1, 1}}}, 3,
              {"c_pad: zero_pad top=0 left=0 bottom=1 right=1", kPlainConvolution});
  // Of 2 columns before and 1 after them, the window does not reach another one after them.
  CheckWindow("Conv", 6, {{"strides", Ints{2, 2}}, {"pads", Ints{1, 2, 2, 1}}}, 4,
              {"c_pad: zero_pad top=0 left=0 bottom=1 right=0",
               "c: convolution out_channels=3 kernel=3x3 stride=2x2 padding=1x2 dilation=1x1 "
               "groups=1 bias=false"});
}

TEST_CASE("poolings with dilation compute what ONNX says") {
  CheckOneNode({"MaxPool",
                {2, 3, 9, 8},
                {},
                {{"kernel_shape", Ints{3, 2}},
                 {"strides", Ints{2, 1}},
                 {"pads", Ints{1, 0, 1, 0}},
                 {"dilations", Ints{2, 3}}},
                3 * 4 * 5});
  // Rounded up, a third row of windows would begin behind the image.
  CheckOneNode({"MaxPool",
                {2, 3, 7, 9},
                {},
                {{"kernel_shape", Ints{2, 2}},
                 {"strides", Ints{4, 3}},
                 {"pads", Ints{1, 1, 1, 1}},
                 {"dilations", Ints{3, 2}},
                 {"ceil_mode", int64_t{1}}},
                3 * 2 * 4});
  CheckOneNode(
      {"MaxPool",
       {2, 3, 7, 6},
       {},
       {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{2, 2, 2, 2}}, {"dilations", Ints{2, 2}}},
       3 * 7 * 6});
  for (const int64_t counts : {0, 1}) {
    CheckOneNode({"AveragePool",
                  {2, 3, 8, 7},
                  {},
                  {{"kernel_shape", Ints{3, 2}},
                   {"strides", Ints{2, 3}},
                   {"pads", Ints{2, 1, 2, 1}},
                   {"dilations", Ints{2, 2}},
                   {"count_include_pad", counts},
                   {"ceil_mode", int64_t{1}}},
                  3 * 5 * 3});
  }
}

TEST_CASE("averages with uneven padding that they count have it in zeros before them") {
  const auto average = [](const Ints& pads, int64_t counts) {
    return Attributes{{"kernel_shape", Ints{3, 3}},
                      {"strides", Ints{2, 2}},
                      {"pads", pads},
                      {"count_include_pad", counts}};
  };
  CheckWindow("AveragePool", 6, average({0, 0, 1, 1}, 1), 3,
              {"AveragePool_1_pad: zero_pad top=0 left=0 bottom=1 right=1",
               "AveragePool_1: average_pool kernel=3x3 stride=2x2 padding=0x0 count_padding=true"});
  // More padding than the layer may have.
  CheckWindow("AveragePool", 5, average({2, 2, 2, 2}, 1), 4,
              {"AveragePool_1_pad: zero_pad top=1 left=1 bottom=1 right=1",
               "AveragePool_1: average_pool kernel=3x3 stride=2x2 padding=1x1 count_padding=true"});
  CheckWindow("AveragePool", 6, average({0, 0, 1, 1}, 0), 3,
              {"AveragePool_1: average_pool kernel=3x3 stride=2x2 padding=0x0 count_padding=false "
               "ceil_mode=true"});
}

TEST_CASE("maxima with uneven padding pass the image's end, or are cut") {
  CheckWindow("MaxPool", 6,
              {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{0, 0, 1, 1}}},
              3, {"MaxPool_1: max_pool kernel=3x3 stride=2x2 padding=0x0 ceil_mode=true"});
  CheckWindow("MaxPool", 6, {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{0, 0, 1, 1}}}, 6,
              {"MaxPool_1: max_pool kernel=2x2 stride=1x1 padding=1x1",
               "MaxPool_1_crop: crop size=6x6 offset=1x1"});
  CheckWindow("MaxPool", 6, {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{1, 1, 0, 0}}}, 6,
              {"MaxPool_1: max_pool kernel=2x2 stride=1x1 padding=1x1",
               "MaxPool_1_crop: crop size=6x6 offset=0x0"});
}

TEST_CASE("every window of a pooling is that of ONNX, or the pooling is refused") {
  int read = 0;
  int refused = 0;
  struct Window {
    int64_t kernel, dilation;
  };
  for (const char* const op : {"MaxPool", "AveragePool"}) {
    const bool averages = std::string(op) == "AveragePool";
    for (const auto [kernel, dilation] :
         {Window{2, 1}, Window{3, 1}, Window{4, 1}, Window{3, 2}, Window{2, 3}}) {
      const int64_t reach = (kernel - 1) * dilation + 1;
      for (int64_t i = 0; i < (averages ? 2 : 1) * 2 * 3 * 3 * 3; ++i) {
        const int64_t before = std::min(reach - 1, i % 3);
        const int64_t after = std::min(reach - 1, i / 3 % 3);
        const int64_t stride = i / 9 % 3 + 1;
        const int64_t ceil_mode = i / 27 % 2;
        const int64_t counts = i / 54;
        const Ints image = {1, 2, 7, 6};
        OnnxBuilder model(image);
        Attributes attributes = {{"kernel_shape", Ints{kernel, kernel}},
                                 {"strides", Ints{stride, stride}},
                                 {"pads", Ints{before, after, after, before}},
                                 {"ceil_mode", ceil_mode}};
        if (dilation > 1) attributes.emplace_back("dilations", Ints{dilation, dilation});
        if (averages) attributes.emplace_back("count_include_pad", counts);
        model.Output(model.Node(op, {"x"}, attributes));
        const ScratchDirectory directory;
        const absl::Status status = ReadOnnx(model.Write(directory), {}).status();
        CAPTURE(op);
        CAPTURE(reach);
        CAPTURE(before);
        CAPTURE(after);
        CAPTURE(stride);
        CAPTURE(ceil_mode);
        CAPTURE(counts);
        ++(status.ok() ? read : refused);
        if (status.ok()) CheckPredicts(model, image);
        if (status.ok()) continue;
        CHECK(absl::IsUnimplemented(status));
        CHECK(counts == 0);
        CHECK((2 * std::max(before, after) > reach || (ceil_mode == 1 && before != after)));
      }
    }
  }
  CHECK(read > 0);
  CHECK(refused > 0);
}

TEST_CASE("a pooling with a window that holds padding only is refused") {
  // 4 pixels, windows of two elements at -1 and 4: no more than the padding.
  const auto status = [](const Ints& pads) {
    OnnxBuilder model({1, 2, 4, 4});
    model.Output(
        model.Node("MaxPool", {"x"},
                   {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{5, 5}}, {"pads", pads}}));
    const ScratchDirectory directory;
    return ReadOnnx(model.Write(directory), {}).status();
  };
  const std::string message(status({1, 1, 1, 1}).message());
  CAPTURE(message);
  CHECK(message.find("a window of kernel 2x2 with dilation 5x5 and padding 1x1 holds no pixel of "
                     "the image 4x4") != std::string::npos);
  // Windows at -3 and -2 hold pixels 2 and 3, but padding on both sides also has one at -1.
  CHECK(absl::IsUnimplemented(status({3, 3, 0, 0})));
}

TEST_CASE("a Pad is a layer where its reader is neither a convolution nor an average") {
  for (const bool with_axes : {false, true}) {
    OnnxBuilder model({1, 2, 5, 4});
    std::vector<std::string> inputs = {"x"};
    if (with_axes) {
      inputs.push_back(model.Integers("pads", {1, 0, 2, 3}));
      inputs.emplace_back("");
      inputs.push_back(model.Integers("axes", {-2, 3}));
    } else {
      inputs.push_back(model.Integers("pads", {0, 0, 1, 0, 0, 0, 2, 3}));
    }
    const std::string padded = model.Node("Pad", inputs);
    const std::string relu = model.Node("Relu", {padded});
    const std::string pool = model.Node("MaxPool", {padded}, {{"kernel_shape", Ints{1, 1}}});
    const std::string mean = model.Node("AveragePool", {padded},
                                        {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}});
    model.EndWithClasses(model.Node("Sum", {relu, padded, pool, mean}), 2 * 8 * 7);
    CHECK(InnerLayers(model)[0] == "Pad_1: zero_pad top=1 left=0 bottom=2 right=3");
    CheckPredicts(model, {1, 2, 5, 4});
  }
}

TEST_CASE("a Pad that several nodes read is one layer, or the padding of those that can have it") {
  OnnxBuilder model({1, 3, 6, 6});
  const auto conv = [&](const std::string& x, const std::string& name) {
    return model.Node("Conv", {x, model.Random(name + ".weight", {3, 3, 3, 3})},
                      {{"strides", Ints{2, 2}}});
  };
  const std::string uneven =
      model.Node("Pad", {"x", model.Integers("one", {0, 0, 0, 0, 0, 0, 1, 1})});
  const std::string even =
      model.Node("Pad", {"x", model.Integers("two", {0, 0, 1, 1, 0, 0, 1, 1})});
  model.EndWithClasses(model.Node("Sum", {conv(uneven, "c"), conv(uneven, "d"), conv(even, "e")}),
                       3 * 3 * 3);
  const std::vector<std::string> layers = InnerLayers(model);
  CHECK(layers.size() == 5);
  CHECK(layers[0] == "Pad_1: zero_pad top=0 left=0 bottom=1 right=1");
  CHECK(layers[1] == kPlainConvolution);
  CHECK(layers[3].find("e: convolution out_channels=3 kernel=3x3 stride=2x2 padding=1x1") == 0);
  CheckPredicts(model, {1, 3, 6, 6});
}

TEST_CASE("negative pads take pixels away") {
  OnnxBuilder model({1, 2, 5, 6});
  const std::string cut =
      model.Node("Pad", {"x", model.Integers("pads", {0, 0, -1, 2, 0, 0, 1, -3})});
  model.EndWithClasses(model.Node("Relu", {cut}), 2 * 5 * 5);
  CHECK(InnerLayers(model) ==
        std::vector<std::string>{"Pad_1_crop: crop size=4x3 offset=1x0",
                                 "Pad_1: zero_pad top=0 left=2 bottom=1 right=0", "Relu_2: relu "});
  CheckPredicts(model, {1, 2, 5, 6});
}

TEST_CASE("a pad by reflection, or with the pixels at the edge, is joined of slices") {
  for (const char* const mode : {"reflect", "edge"}) {
    OnnxBuilder model({2, 3, 4, 5});
    const std::string padded =
        model.Node("Pad", {"x", model.Integers("pads", {0, 0, 1, 2, 0, 0, 2, 0})},
                   {{"mode", std::string(mode)}});
    model.EndWithClasses(model.Node("Relu", {padded}), 3 * 7 * 7);
    CheckPredicts(model, {2, 3, 4, 5});
    CheckPredicts(model, {2, 3, 4, 5}, Layout::kChannelsLast);
  }
}

}  // namespace
}  // namespace neap::testing
