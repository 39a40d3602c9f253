// Files that PyTorch has exported (tests/nets/onnx/exported) predict what PyTorch does.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "neap/core/checkpoint/safetensors.h"
#include "neap/core/run/session.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/memory/create_session.h"
#include "neap/nets/onnx/onnx_file.h"
#include "neap/nets/registry.h"
#include "tests/scratch_directory.h"
#include "tests/skip.h"
#include "tests/source_tree.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;

std::string Exported(const std::string& file) {
  return SourceTree() / "tests/nets/onnx/exported" / file;
}

std::vector<float> Expected(const std::string& name) {
  const SafetensorsReader reader =
      SafetensorsReader::Open(Exported("expected.safetensors")).value();
  const SafetensorsEntry entry = reader.Find(name).value();
  std::vector<float> values(static_cast<size_t>(entry.size_bytes) / sizeof(float));
  REQUIRE(reader
              .Read(entry, absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()),
                                          static_cast<size_t>(entry.size_bytes)))
              .ok());
  return values;
}

std::vector<float> Logits(const OnnxModel& model, Device& device) {
  Session session = CreateSession(model.graph, device, {}, {.inference_only = true}).value();
  REQUIRE(session.LoadWeights(model.weights).ok());
  return session.Predict(Expected("images")).value().logits;
}

struct File {
  std::string name;
  int64_t parameters;  // as PyTorch counts them
  Layout layout;
};

TEST_CASE("networks that PyTorch has exported have its parameters and its scores") {
  if (!nets::BuiltWithOnnx()) return SkipCase("this build has no ONNX");
  const auto device = CpuDevice::Open().value();
  // The newer exporter has folded regnet's batch norms, whose two vectors became one bias.
  for (const File& file : {File{"mobilenet_v3", 28442, Layout::kChannelsFirst},
                           {"densenet", 6442, Layout::kChannelsFirst},
                           {"efficientnet", 14380, Layout::kChannelsLast},
                           {"regnet", 18764, Layout::kChannelsFirst}}) {
    CAPTURE(file.name);
    const absl::StatusOr<OnnxModel> model =
        nets::ReadOnnx(Exported(file.name + ".onnx"), {.batch = 2, .layout = file.layout});
    REQUIRE_MESSAGE(model.ok(), model.status().ToString());
    CHECK(nets::ParameterCount(Resolve(model->graph, Mode::kTraining).value()) == file.parameters);
    const std::vector<float> logits = Logits(*model, *device), expected = Expected(file.name);
    REQUIRE(logits.size() == expected.size());
    for (size_t i = 0; i < logits.size(); ++i) CHECK(std::abs(logits[i] - expected[i]) < 1e-4F);

    const ScratchDirectory directory;
    REQUIRE(nets::WriteOnnx(directory.File("again.onnx"), model->graph, model->weights).ok());
    const absl::StatusOr<OnnxModel> again =
        nets::ReadOnnx(directory.File("again.onnx"), {.batch = 2, .layout = file.layout});
    REQUIRE_MESSAGE(again.ok(), again.status().ToString());
    CHECK(Logits(*again, *device) == logits);
  }
}

}  // namespace
}  // namespace neap::testing
