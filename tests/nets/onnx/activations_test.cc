// Activations that have operators in some opsets, and the formulas that exporters write for them in
// others.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/base/float16.h"
#include "neap/core/graph/graph.h"
#include "neap/layers/activation.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/multiply.h"
#include "neap/layers/prelu.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/nets/onnx/onnx_checks.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;

const Ints kImage = {1, 3, 4, 5};

// Writes formulas of one value.
struct FormulaBuilder {
  OnnxBuilder model = OnnxBuilder(kImage);
  int numbers = 0;

  std::string Number(float value) {
    return model.Scalar("number" + std::to_string(++numbers), value);
  }
  // The same as a tensor of this type, of 16 bits.
  std::string Number(float value, onnx_schema::Tensor::DataType type) {
    std::string name = Number(value);
    const bool is_fp16 = type == onnx_schema::Tensor::FLOAT16;
    const uint16_t bits =
        is_fp16 ? std::bit_cast<uint16_t>(Fp16(value)) : std::bit_cast<uint16_t>(Bf16(value));
    onnx_schema::Tensor& tensor =
        *model.graph().mutable_initializer(model.graph().initializer_size() - 1);
    tensor.set_data_type(type);
    tensor.set_raw_data(&bits, sizeof(bits));
    return name;
  }
  std::string Add(const std::string& a, const std::string& b) { return model.Node("Add", {a, b}); }
  std::string Mul(const std::string& a, const std::string& b) { return model.Node("Mul", {a, b}); }
  std::string Div(const std::string& a, const std::string& b) { return model.Node("Div", {a, b}); }
  std::string Erf(const std::string& a) { return model.Node("Erf", {a}); }
  std::string Tanh(const std::string& a) { return model.Node("Tanh", {a}); }
  std::string Erfs(const std::string& x) { return Erf(Div(x, Number(std::sqrt(2.0F)))); }
  std::string Cube(const std::string& x) { return Mul(x, Mul(x, x)); }
  // sqrt(2 / pi) * (x + 0.044715 * cube)
  std::string Inner(const std::string& x, const std::string& cube) {
    return Mul(Number(0.7978846F), Add(x, Mul(Number(0.044715F), cube)));
  }
};
using Write = std::function<std::string(FormulaBuilder&, const std::string&)>;

std::vector<GraphLayer> LayersRead(const OnnxBuilder& model) {
  const ScratchDirectory directory;
  const absl::StatusOr<OnnxModel> read = ReadOnnx(model.Write(directory), {.batch = 1});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  return {read->graph.layers().begin(), read->graph.layers().end()};
}

// The formula of the images is the layer alone, and computes the same.
void CheckIsOneLayer(const Layer& layer, const std::vector<Write>& all) {
  for (size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    FormulaBuilder builder;
    const std::string last = all[i](builder, "x");
    const int nodes = builder.model.graph().node_size();
    const std::string name = builder.model.graph().node(nodes - 1).name();
    builder.model.EndWithClasses(last, 3 * 4 * 5);
    const std::vector<GraphLayer> layers = LayersRead(builder.model);
    REQUIRE(layers.size() == 5);  // images, the layer, a matrix product, labels, loss
    CHECK(layers[1].layer == layer);
    CHECK(layers[1].name == name);
    CHECK(layers[1].inputs == std::vector<std::string>{"input"});
    CheckPredicts(builder.model, kImage);
  }
}

TEST_CASE("operators of activations compute what ONNX says") {
  CheckOneNode({"Elu", {2, 3, 5, 4}, {}, {}, 3 * 5 * 4});
  CheckOneNode({"Elu", {2, 3, 5, 4}, {}, {{"alpha", 0.3F}}, 3 * 5 * 4});
  CheckOneNode({"Gelu", {2, 3, 5, 4}, {}, {{"approximate", std::string("tanh")}}, 3 * 5 * 4});
  for (const char* const op : {"Gelu", "Softplus", "Mish"})
    CheckOneNode({op, {2, 3, 5, 4}, {}, {}, 3 * 5 * 4});
}

TEST_CASE("GELU by erf is one layer, in whatever order its steps are") {
  CheckIsOneLayer(
      Gelu{},
      {// by PyTorch's exporter by tracing, up to opset 19
       [](auto& f, auto& x) {
         return f.Mul(f.Mul(x, f.Add(f.Erfs(x), f.Number(1))), f.Number(0.5F));
       },
       // by its newer one
       [](auto& f, auto& x) {
         return f.Mul(f.Number(0.5F), f.Mul(x, f.Add(f.Erfs(x), f.Number(1))));
       },
       // by models that write it in Python
       [](auto& f, auto& x) {
         return f.Mul(f.Mul(x, f.Number(0.5F)), f.Add(f.Number(1), f.Erfs(x)));
       },
       [](auto& f, auto& x) {
         const std::string erf = f.Erf(f.Mul(x, f.Number(0.70710677F)));
         return f.Mul(x, f.Mul(f.Number(0.5F), f.Add(f.Number(1), erf)));
       },
       [](auto& f, auto& x) {
         return f.Mul(f.Add(f.Mul(f.Erfs(x), f.Number(0.5F)), f.Number(0.5F)), x);
       },
       [](auto& f, auto& x) { return f.Div(f.Mul(f.Add(f.Erfs(x), f.Number(1)), x), f.Number(2)); },
       [](auto& f, auto& x) {
         const std::string half = f.Mul(x, f.Number(0.5F));
         return f.Add(half, f.Mul(f.Erfs(x), half));
       }});
}

// A GELU by erf and one by tanh, by these numbers for sqrt(2), 0.044715 and sqrt(2 / pi).
void AddTwoGelus(FormulaBuilder& f, const std::string& root, const std::string& cubic,
                 const std::string& scale) {
  const std::string erf = f.Erf(f.Div("x", root));
  const std::string by_erf = f.Mul(f.Mul("x", f.Add(erf, f.Number(1))), f.Number(0.5F));
  const std::string bent = f.Mul(cubic, f.Cube(by_erf));
  const std::string tanh = f.Tanh(f.Mul(scale, f.Add(by_erf, bent)));
  f.model.EndWithClasses(f.Mul(f.Mul(f.Number(0.5F), by_erf), f.Add(f.Number(1), tanh)), 3 * 4 * 5);
}

TEST_CASE("GELU is one layer if its numbers are rounded as their type says") {
  using onnx_schema::Tensor;
  const auto check = [](const FormulaBuilder& f) {
    const std::vector<GraphLayer> layers = LayersRead(f.model);
    REQUIRE(layers.size() == 6);
    CHECK(layers[1].layer == Layer(Gelu{}));
    CHECK(layers[2].layer == Layer(Gelu{Gelu::Approximation::kTanh}));
  };
  for (const auto type : {Tensor::FLOAT16, Tensor::BFLOAT16}) {
    FormulaBuilder f;
    AddTwoGelus(f, f.Number(std::sqrt(2.0F), type), f.Number(0.044715F, type),
                f.Number(0.7978846F, type));
    check(f);
  }
  FormulaBuilder digits;  // six of them
  AddTwoGelus(digits, digits.Number(1.41421F), digits.Number(0.044715F), digits.Number(0.797885F));
  check(digits);
}

TEST_CASE("numbers of 32 bits that are those of GELU only if they are rounded to 16 are refused") {
  FormulaBuilder f;
  AddTwoGelus(f, f.Number(static_cast<float>(Fp16(std::sqrt(2.0F)))), f.Number(0.044715F),
              f.Number(0.7978846F));
  const ScratchDirectory directory;
  CHECK(absl::IsUnimplemented(ReadOnnx(f.model.Write(directory), {.batch = 2}).status()));
  FormulaBuilder of_fp16;  // that of bf16
  AddTwoGelus(of_fp16, of_fp16.Number(std::sqrt(2.0F)), of_fp16.Number(0.044715F),
              of_fp16.Number(0.796875F, onnx_schema::Tensor::FLOAT16));
  CHECK(absl::IsUnimplemented(ReadOnnx(of_fp16.model.Write(directory), {.batch = 2}).status()));
}

TEST_CASE("GELU by tanh is one layer, in whatever order its steps are") {
  CheckIsOneLayer(
      Gelu{Gelu::Approximation::kTanh},
      {[](auto& f, auto& x) {
         const std::string tanh = f.Tanh(f.Inner(x, f.Cube(x)));
         return f.Mul(f.Number(0.5F), f.Mul(x, f.Add(f.Number(1), tanh)));
       },
       [](auto& f, auto& x) {
         const std::string tanh = f.Tanh(f.Inner(x, f.model.Node("Pow", {x, f.Number(3)})));
         return f.Mul(f.Mul(f.Number(0.5F), x), f.Add(f.Number(1), tanh));
       },
       [](auto& f, auto& x) {
         const std::string bent = f.Mul(f.model.Node("Pow", {x, f.Number(2)}), f.Number(0.044715F));
         const std::string inner = f.Mul(f.Mul(x, f.Number(0.7978846F)), f.Add(bent, f.Number(1)));
         return f.Mul(x, f.Mul(f.Add(f.Tanh(inner), f.Number(1)), f.Number(0.5F)));
       }});
}

TEST_CASE("Mish, and Softplus of a multiple, are one layer where ONNX has several operators") {
  CheckIsOneLayer(
      Mish{}, {[](auto& f, auto& x) { return f.Mul(x, f.Tanh(f.model.Node("Softplus", {x}))); },
               [](auto& f, auto& x) { return f.Mul(f.Tanh(f.model.Node("Softplus", {x})), x); }});
  CheckIsOneLayer(Softplus{.beta = 2.5F}, {[](auto& f, auto& x) {
                    const std::string scaled = f.Mul(x, f.Number(2.5F));
                    return f.Div(f.model.Node("Softplus", {scaled}), f.Number(2.5F));
                  }});
}

TEST_CASE("what looks like Mish, Softplus or GELU and is not stays what it is") {
  FormulaBuilder f;
  const std::string softplus = f.model.Node("Softplus", {f.Mul("x", f.Number(2))});
  const std::string product = f.Mul("x", f.Tanh(softplus));
  f.model.EndWithClasses(
      f.Div(f.model.Node("Softplus", {f.Mul(product, f.Number(3))}), f.Number(2)), 3 * 4 * 5);
  std::vector<std::string> types;
  for (const GraphLayer& layer : LayersRead(f.model)) types.emplace_back(layer.layer.type());
  CHECK(types == std::vector<std::string>{"feed", "scale_shift", "softplus", "tanh", "multiply",
                                          "scale_shift", "softplus", "scale_shift",
                                          "fully_connected", "feed", "softmax_cross_entropy"});
  CheckPredicts(f.model, kImage);
}

TEST_CASE("a step of a formula that is not GELU is refused where it is read") {
  const auto refused = [](const Write& write, const std::string& text) {
    FormulaBuilder f;
    f.model.EndWithClasses(write(f, "x"), 3 * 4 * 5);
    const ScratchDirectory directory;
    const absl::Status status = ReadOnnx(f.model.Write(directory), {.batch = 2}).status();
    CAPTURE(status.ToString());
    CHECK(absl::IsUnimplemented(status));
    CHECK(std::string(status.message()).find(text) != std::string::npos);
  };
  const std::string step = " is a step of a formula, which neap only has as a whole, as in GELU";
  refused([](auto& f, auto& x) { return f.model.Node("Relu", {f.Erf(x)}); }, step);
  refused([](auto& f, auto& x) { return f.Mul(x, f.Add(f.Erfs(x), f.Number(1))); }, step);
  const std::string no_step = "it is no step of a formula that neap has, such as GELU";
  refused([](auto& f, auto& x) { return f.Mul(f.Erf(x), f.Erf(x)); }, no_step);
  refused([](auto& f, auto& x) { return f.Mul(f.model.Node("Relu", {x}), f.Erf(x)); }, no_step);
  refused([](auto& f, auto& x) { return f.Div(x, f.Erf(x)); }, no_step);
  refused(
      [](auto& f, auto& x) {
        return f.model.Node("Pow", {x, f.Number(4)});
      },
      "its exponent is 4; 2 and 3 are read");
  OnnxBuilder model(kImage);
  model.Output(model.Node("Erf", {"x"}));
  const ScratchDirectory directory;
  const absl::Status status = ReadOnnx(model.Write(directory), {.batch = 2}).status();
  CHECK(std::string(status.message()).find("the output 'value1'" + step) != std::string::npos);
}

// The activation of CAFormer, and other polynomials of degree 2 and 3.
TEST_CASE("a polynomial is the layers of its products and sums") {
  const std::vector<Write> all = {
      [](auto& f, auto& x) { return f.Mul(x, x); },
      [](auto& f, auto& x) {
        const std::string relu = f.model.Node("Relu", {x});
        const std::string square = f.model.Node("Pow", {relu, f.Number(2)});
        return f.Add(f.Mul(f.Number(0.9F), square), f.Number(-0.4F));
      },
      [](auto& f, auto& x) {
        const std::string cube = f.model.Node("Pow", {x, f.Number(3)});
        return f.Add(f.Mul(f.Number(0.3F), cube), f.Add(x, f.Number(0.5F)));
      },
      [](auto& f, auto& x) {  // beside other values
        const std::string square = f.model.Node("Pow", {x, f.Number(2)});
        const std::string scaled = f.Mul(square, f.model.Random("w", {3, 1, 1}));
        const std::string sigmoid = f.model.Node("Sigmoid", {x});
        return f.Add(f.Mul(square, sigmoid), f.Add(scaled, sigmoid));
      }};
  for (const Write& write : all) {
    FormulaBuilder f;
    f.model.EndWithClasses(f.model.Node("Relu", {write(f, "x")}), 3 * 4 * 5);
    CheckPredicts(f.model, kImage);
    CheckPredicts(f.model, kImage, Layout::kChannelsLast);
  }
}

TEST_CASE("a polynomial may be what a network computes") {
  OnnxBuilder model(kImage);
  model.Output(model.Node("Pow", {"x", model.Scalar("two", 2)}));
  CheckComputes(model, kImage, MeanSquaredError{});
}

TEST_CASE("the slopes of a PRelu are one number, or one for each channel") {
  for (const Ints& dims : {Ints{}, Ints{1}, Ints{1, 1, 1}, Ints{3, 1, 1}, Ints{1, 3, 1, 1}}) {
    CAPTURE(dims.size());
    OnnxBuilder model(kImage);
    model.EndWithClasses(model.Node("PRelu", {"x", model.Random("act.weight", dims)}), 3 * 4 * 5);
    CheckPredicts(model, kImage);
    CheckPredicts(model, kImage, Layout::kChannelsLast);
    const GraphLayer layer = LayersRead(model)[1];
    CHECK(layer.name == "act");
    CHECK(layer.layer == Layer(Prelu{.slopes = Elements(dims)}));
  }
  OnnxBuilder flat({1, 4});
  flat.EndWithClasses(flat.Node("PRelu", {"x", flat.Random("act.weight", {4})}), 4);
  CheckPredicts(flat, {1, 4});

  OnnxBuilder model(kImage);  // slopes along the width
  model.EndWithClasses(model.Node("PRelu", {"x", model.Random("act.weight", {5})}), 3 * 4 * 5);
  const ScratchDirectory directory;
  const absl::Status status = ReadOnnx(model.Write(directory), {.batch = 2}).status();
  CHECK(absl::IsUnimplemented(status));
  CHECK(std::string(status.message())
            .find("its slope is 5; one value, or one for each channel, is needed") !=
        std::string::npos);
}

TEST_CASE("a PRelu that is applied twice has one parameter, also behind changes of its axes") {
  OnnxBuilder model(kImage);
  const std::string slopes = model.Floats("act.weight", {3}, {0.25F, 0.25F, 0.25F});
  const auto apply = [&](const std::string& x) {
    const std::string axes = model.Integers("axes of " + x, {1, 2});
    return model.Node("PRelu", {x, model.Node("Unsqueeze", {slopes, axes})});
  };
  model.EndWithClasses(apply(apply("x")), 3 * 4 * 5);
  const ScratchDirectory directory;
  const OnnxModel read = ReadOnnx(model.Write(directory), {.batch = 2}).value();
  REQUIRE(read.graph.shared().size() == 1);
  CHECK(read.graph.shared()[0].param == "act_2.weight");
  CHECK(read.graph.shared()[0].owner == "act.weight");
  CHECK(read.weights.at("act.weight") == std::vector<float>(3, 0.25F));
}

TEST_CASE("slopes are written with the axes of images, and read back with their values") {
  Graph net({.name = "n", .batch = 2});
  std::string x = net.Input({3, 4, 4});
  x = net.Add("each", Prelu{.slopes = 3}, {x});
  x = net.Add("again", Prelu{.slopes = 3}, {x});
  x = net.Add("one", Prelu{}, {x});
  x = net.Add("fc", FullyConnected{.out_features = 2, .bias = false}, {x});
  x = net.Add("flat", Prelu{.slopes = 2}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  net.Share("again.weight", "each.weight");
  const NamedValues weights = {{"each.weight", {0.5F, -1, 0.125F}},
                               {"one.weight", {0.75F}},
                               {"fc.weight", std::vector<float>(2 * 48, 0.25F)},
                               {"flat.weight", {1, 2}}};
  const ScratchDirectory directory;
  const std::string path = directory.File("n.onnx");
  REQUIRE(nets::WriteOnnx(path, net, weights).ok());
  const absl::StatusOr<OnnxModel> read = ReadOnnx(path, {.batch = 2});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CHECK(read->weights == weights);
  CHECK(read->graph.shared() == net.shared());
  for (size_t i = 0; i < net.layers().size(); ++i)
    CHECK(read->graph.layers()[i].layer == net.layers()[i].layer);
}

TEST_CASE("layers that compute the parts of another one are read as they were written") {
  Graph net({.name = "n", .batch = 2});
  std::string x = net.Input({3, 4, 4});
  const auto gate = [&](const std::string& name, const Layer& layer) {
    x = net.Add(name + "_product", Multiply{}, {x, net.Add(name, layer, {x})});
  };
  gate("sigmoid", Sigmoid{});
  gate("hard_sigmoid", HardSigmoid{});
  const std::string softplus = net.Add("softplus", Softplus{}, {x});
  x = net.Add("product", Multiply{}, {x, net.Add("tanh", Tanh{}, {softplus})});
  for (const Layer& layer : {Layer(Silu{}), Layer(Mish{}), Layer(Gelu{}), Layer(HardSwish{}),
                             Layer(Gelu{Gelu::Approximation::kTanh}), Layer(Softplus{.beta = 2})})
    x = net.Add("one_" + std::to_string(net.layers().size()), layer, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 2, .bias = false}, {x}),
           SoftmaxCrossEntropy{});
  const ScratchDirectory directory;
  const std::string path = directory.File("n.onnx");
  const absl::Status written =
      nets::WriteOnnx(path, net, {{"fc.weight", std::vector<float>(2 * 48, 0.25F)}});
  REQUIRE_MESSAGE(written.ok(), written.ToString());
  const absl::StatusOr<OnnxModel> read = ReadOnnx(path, {.batch = 2});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CHECK(read->graph.layers() == net.layers());
}

TEST_CASE("a Softplus with another threshold than PyTorch's has no operator") {
  Graph net({.name = "n", .batch = 2});
  std::string x = net.Input({3, 1, 1});
  x = net.Add("soft", Softplus{.threshold = 2}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  const ScratchDirectory directory;
  const absl::Status status = nets::WriteOnnx(directory.File("n.onnx"), net, {});
  CHECK(absl::IsUnimplemented(status));
  CHECK(status.message() == "ONNX has no operator for: 'soft' (softplus)");
}

}  // namespace
}  // namespace neap::testing
