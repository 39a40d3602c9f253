#include "apps/bench/conv_set.h"

#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/signature_text.h"
#include "neap/nets/registry.h"
#include "tests/scratch_directory.h"

namespace neap::apps {
namespace {

constexpr char kColumns[] =
    "source,W,H,C_in,N,C_out,kernel_w,kernel_h,pad_w,pad_h,stride_w,stride_h\n";

std::vector<ConvKernel> KernelsOfNet(const std::string& net, int64_t batch) {
  const Graph graph = nets::Build(net, {.batch = batch}).value();
  return ConvolutionsOf(BuildProgram(graph, {}).value());
}

int64_t CountOf(const std::vector<ConvKernel>& kernels) {
  int64_t count = 0;
  for (const ConvKernel& kernel : kernels) count += kernel.count;
  return count;
}

TEST_CASE("DeepBench's 94 shapes are 282 kernels that can be divided") {
  const std::vector<ConvKernel> kernels = DeepBenchConvolutions({}).value();
  CHECK(CountOf(kernels) == 94 * 3);
  for (const ConvKernel& kernel : kernels) {
    CAPTURE(kernel.name);
    CHECK(IsDivisible(kernel.signature));
    CHECK(kernel.signature.operands.size() == 3);
    CHECK(BatchOf(kernel.signature) >= 4);
    CHECK(BatchOf(kernel.signature) <= 32);
    for (const OperandSpec& operand : kernel.signature.operands)
      CHECK(operand.tensor.elements() > 0);
  }
}

TEST_CASE("a shape is read by its columns, height and width in their places") {
  const std::vector<ConvKernel> kernels =
      ReadShapeList(absl::StrCat(kColumns, "Speech,700,161,1,4,32,20,5,3,0,2,4\n"), {}).value();
  REQUIRE(kernels.size() == 3);
  CHECK(kernels[0].name == "Speech 1");
  CHECK(kernels[0].Shapes() == "4x1x161x700 * 32x1x5x20 -> 4x32x40x344");
  CHECK(kernels[0].signature.phase == Phase::kForward);
  CHECK(kernels[1].signature.phase == Phase::kBackwardData);
  CHECK(kernels[2].signature.phase == Phase::kBackwardParams);
  CHECK(kernels[2].Shapes() == kernels[0].Shapes());
  for (const ConvKernel& kernel : kernels)
    CHECK(kernel.Flops() == 2.0 * (4 * 32 * 40 * 344) * (1 * 5 * 20));
}

TEST_CASE("batch, type and layout of a list of shapes can be changed") {
  const std::vector<ConvKernel> kernels =
      DeepBenchConvolutions({.batch = 64, .dtype = DType::kTf32, .layout = Layout::kChannelsLast})
          .value();
  for (const ConvKernel& kernel : kernels) {
    CHECK(BatchOf(kernel.signature) == 64);
    CHECK(kernel.signature.operands[0].tensor.dtype == DType::kTf32);
    CHECK(kernel.signature.operands[0].tensor.layout == Layout::kChannelsLast);
  }
  const std::vector<ConvKernel> own = DeepBenchConvolutions({}).value();
  const std::vector<ConvKernel> larger = DeepBenchConvolutions({.batch_factor = 4}).value();
  CHECK(BatchOf(larger[0].signature) == 4 * BatchOf(own[0].signature));
}

TEST_CASE("the error for a list of shapes names the wrong row") {
  const auto message = [](const std::string& csv) {
    return std::string(ReadShapeList(csv, {}).status().message());
  };
  const std::string good = "Vision,8,8,3,2,4,3,3,1,1,1,1\n";
  CHECK(message("").find("row 0") != std::string::npos);
  CHECK(message("w,h\n").find("row 0") != std::string::npos);
  CHECK(message(kColumns + good + "Vision,8,8\n").find("row 2") != std::string::npos);
  CHECK(message(kColumns + good + "Vision,8,8,3,0,4,3,3,1,1,1,1\n").find("'0'") !=
        std::string::npos);
  CHECK(message(absl::StrCat(kColumns, "Vision,8,8,3,2,4,9,9,0,0,1,1\n")).find("row 1") !=
        std::string::npos);  // a window larger than the image
}

TEST_CASE("a list of shapes is read from a file, and an error names the file") {
  const ScratchDirectory directory;
  const std::string path = directory.File("shapes.csv");
  const auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    return ReadShapeFile(path, {.batch_factor = 2});
  };
  const absl::StatusOr<std::vector<ConvKernel>> kernels =
      read(absl::StrCat(kColumns, "Vision,8,8,3,2,4,3,3,1,1,1,1\n"));
  REQUIRE(kernels.ok());
  CHECK(kernels->size() == 3);
  CHECK(BatchOf(kernels->front().signature) == 4);
  for (const std::string& text : {std::string(kColumns), std::string("w,h\n"), std::string()}) {
    const absl::Status status = read(text).status();
    CHECK(std::string(status.message()).starts_with(path));
  }
  CHECK(std::string(ReadShapeFile(directory.File("none.csv"), {}).status().message())
            .find("none.csv") != std::string::npos);
}

TEST_CASE("a network's convolutions are ordered by layer, without the images' gradient") {
  const std::vector<ConvKernel> kernels = KernelsOfNet("lenet", 8);
  std::vector<std::string> names;
  for (const ConvKernel& kernel : kernels)
    names.push_back(kernel.name + " " + std::string(Name(kernel.signature.phase)));
  CHECK(names == std::vector<std::string>{"conv1 forward", "conv1 backward_params", "conv2 forward",
                                          "conv2 backward_data", "conv2 backward_params"});
}

TEST_CASE("equal kernels are counted") {
  const std::vector<ConvKernel> kernels = KernelsOfNet("resnet50", 4);
  CHECK(CountOf(kernels) == 53 * 3 - 1);
  CHECK(kernels.size() < 80);
}

}  // namespace
}  // namespace neap::apps
