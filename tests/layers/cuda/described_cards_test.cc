// The engines of published cards, none of which is here. cuDNN lists those that it supports.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "neap/layers/attention/attention.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cuda/cuda_backend.h"
#include "neap/layers/cuda/described_catalog.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/devices/device_file.h"
#include "tests/layers/cuda/described_h200.h"
#include "tests/scratch_directory.h"
#include "tests/source_tree.h"

namespace neap::testing {
namespace {

bool IsSupported(const DeviceDescription& card) { return card.gpu->compute_capability >= 75; }

// The steps of a convolution of 128 channels, with fp32 gradients of parameters.
std::vector<StepSignature> Steps(DType dtype) {
  const Layer conv =
      Convolution{.out_channels = 128, .kernel = 3, .stride = 2, .padding = 1, .bias = false};
  std::vector<StepSignature> steps =
      Signatures(conv, {{32, 128, 28, 28}, dtype, Layout::kChannelsLast});
  for (StepSignature& step : steps) {
    for (OperandSpec& operand : step.operands) {
      if (operand.operand.slot == Slot::kParamGrad) operand.tensor.dtype = DType::kFp32;
    }
  }
  return steps;
}

TEST_CASE("cuDNN lists tensor-core engines with workspace for every card that it supports") {
  if (CatalogOrSkip() == nullptr) return;
  for (const std::string& name : DescribedDeviceNames()) {
    const DeviceDescription card = DescribedDevice(name).value();
    if (!IsSupported(card)) continue;
    CAPTURE(name);
    REQUIRE(ListsEnginesOf(card).ok());
    const std::unique_ptr<EngineCatalog> catalog = DescribedCatalog(name).value();
    CHECK(catalog->Versions().starts_with("cuDNN 9."));
    for (const DType dtype : {DType::kTf32, DType::kFp16, DType::kBf16}) {
      CAPTURE(Name(dtype));
      for (const StepSignature& step : Steps(dtype)) {
        const absl::StatusOr<std::vector<Engine>> engines = catalog->Engines(step);
        REQUIRE_MESSAGE(engines.ok(), std::string(engines.status().message()));
        CHECK(std::any_of(engines->begin(), engines->end(), [](const Engine& engine) {
          return engine.uses_tensor_cores && engine.workspace_bytes > 0;
        }));
      }
    }
    for (const StepSignature& step : Steps(DType::kFp32)) {
      const std::vector<Engine> engines = catalog->Engines(step).value();
      CHECK(!engines.empty());
      CHECK(std::none_of(engines.begin(), engines.end(),
                         [](const Engine& engine) { return engine.uses_tensor_cores; }));
    }
  }
}

TEST_CASE("cards of different generations have different engines") {
  if (CatalogOrSkip() == nullptr) return;
  std::vector<std::string> first;
  for (const char* const name : {"a100-80gb", "rtx3090", "l4", "h100", "b200", "rtx5090"}) {
    const std::unique_ptr<EngineCatalog> catalog = DescribedCatalog(name).value();
    const std::vector<Engine> engines = catalog->Engines(Steps(DType::kTf32)[0]).value();
    std::string ids;
    for (const Engine& engine : engines) ids += engine.id + " ";
    CHECK(std::find(first.begin(), first.end(), ids) == first.end());
    first.push_back(ids);
  }
}

TEST_CASE("attention on Hopper has the workspace that cuDNN lists on a real H200") {
  if (CatalogOrSkip() == nullptr) return;
  struct Row {
    int64_t heads, images, positions, backward_bytes;
  };
  const std::unique_ptr<EngineCatalog> h200 = DescribedCatalog("h200").value();
  for (const Row& row : {Row{12, 16, 1024, 403'440'640}, Row{16, 8, 1024, 268'960'768},
                         Row{12, 128, 197, 202'537'984}, Row{12, 3, 197, 4'747'264}}) {
    const TensorSpec qkv = {
        {row.images, 3 * 64 * row.heads, row.positions}, DType::kBf16, Layout::kChannelsLast};
    for (const bool causal : {false, true}) {
      CAPTURE(causal);
      const std::vector<StepSignature> steps =
          Signatures(Attention{.heads = row.heads, .causal = causal}, qkv);
      const Engine forward = h200->Engines(steps[0]).value().front();
      CHECK(forward.id == "cudnn-sdpa");
      CHECK(forward.workspace_bytes == 1024);
      const Engine backward = h200->Engines(steps[1]).value().front();
      CHECK(backward.id == "cudnn-sdpa-deterministic");
      CHECK(backward.workspace_bytes == row.backward_bytes);
    }
  }
  // Of other generations it is not known.
  const std::unique_ptr<EngineCatalog> a100 = DescribedCatalog("a100-80gb").value();
  const TensorSpec qkv = {{16, 2304, 1024}, DType::kBf16, Layout::kChannelsLast};
  CHECK(a100->Engines(Signatures(Attention{.heads = 12}, qkv)[0]).value().front().id == "neap");
}

TEST_CASE("attention whose workspace on Hopper was not measured has neap's kernels there") {
  if (CatalogOrSkip() == nullptr) return;
  const std::unique_ptr<EngineCatalog> h200 = DescribedCatalog("h200").value();
  struct Row {
    int64_t heads, kv_heads, dims;
  };
  for (const Row& row : {Row{16, 16, 32}, Row{16, 16, 128}, Row{16, 4, 64}}) {
    CAPTURE(row.dims);
    const TensorSpec qkv = {
        {8, (row.heads + 2 * row.kv_heads) * row.dims, 1024}, DType::kBf16, Layout::kChannelsLast};
    const Attention layer = {.heads = row.heads, .kv_heads = row.kv_heads};
    for (const StepSignature& step : Signatures(layer, qkv))
      CHECK(h200->Engines(step).value().front().id == "neap");
  }
}

TEST_CASE("a card that cuDNN does not support has placeholders, and a reason for them") {
  for (const char* const name : {"k40c", "p100", "v100", "v100-32gb"}) {
    CAPTURE(name);
    const DeviceDescription card = DescribedDevice(name).value();
    REQUIRE(!IsSupported(card));
    const absl::Status unlisted = ListsEnginesOf(card);
    CHECK(absl::IsFailedPrecondition(unlisted));
    CHECK(std::string(unlisted.message()).find(card.name + " has ") != std::string::npos);
    const std::unique_ptr<EngineCatalog> catalog = DescribedCatalog(name).value();
    CHECK(catalog->Versions().empty());
    const std::vector<Engine> engines = catalog->Engines(Steps(DType::kFp32)[0]).value();
    REQUIRE(engines.size() == 1);
    CHECK(engines[0].id == kDefaultEngine);
    CHECK(engines[0].workspace_bytes == 0);
  }
  CHECK(ListsEnginesOf(DescribedDevice("k40c").value()).message() ==
        "cuDNN supports GPUs from compute capability 7.5, and Tesla K40c has 3.5");
}

TEST_CASE("a description without the properties of a GPU has placeholders") {
  DeviceDescription card = DescribedDevice("h200").value();
  card.gpu.reset();
  CHECK(absl::IsFailedPrecondition(ListsEnginesOf(card)));
  CHECK(DescribedCatalog(card).value()->Versions().empty());
}

TEST_CASE("the properties of a described H200 are those that cuDNN gives of a real one") {
  if (CatalogOrSkip() == nullptr) return;
  const std::string file =
      ReadText((SourceTree() / "tests/layers/cuda/nvidia-h200.deviceprops.json").string());
  nlohmann::ordered_json real = nlohmann::ordered_json::parse(file);
  real["pciDeviceId"] = 0;  // the slot of that machine
  CHECK(CudnnDeviceProperties(DescribedDevice("h200").value()).value() == real.dump());
}

TEST_CASE("a card has the same engines by its file as by its name") {
  if (CatalogOrSkip() == nullptr) return;
  for (const char* const name : {"l40s", "rtx5090"}) {
    CAPTURE(name);
    const DeviceDescription read =
        DeviceFromJson(DeviceToJson(DescribedDevice(name).value())).value();
    const std::unique_ptr<EngineCatalog> by_name = DescribedCatalog(name).value();
    const std::unique_ptr<EngineCatalog> by_file = DescribedCatalog(read).value();
    for (const StepSignature& step : Steps(DType::kBf16)) {
      const std::vector<Engine> wanted = by_name->Engines(step).value();
      const std::vector<Engine> engines = by_file->Engines(step).value();
      REQUIRE(engines.size() == wanted.size());
      for (size_t i = 0; i < engines.size(); ++i) {
        CHECK(engines[i].id == wanted[i].id);
        CHECK(engines[i].workspace_bytes == wanted[i].workspace_bytes);
      }
    }
  }
}

}  // namespace
}  // namespace neap::testing
