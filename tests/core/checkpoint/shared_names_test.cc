// Files and states that have a parameter that layers share under several names, as PyTorch writes
// them.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/checkpoint/safetensors.h"
#include "neap/core/run/session.h"
#include "tests/core/checkpoint/safetensors_files.h"
#include "tests/core/run/two_towers.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

// Writes the tensors of the file `from`, and one more.
void WriteWith(const WrittenTensor& more, const std::string& from, const std::string& to) {
  const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(from);
  REQUIRE(reader.ok());
  std::vector<WrittenTensor> tensors = {more};
  for (const SafetensorsEntry& entry : reader->entries())
    tensors.push_back({entry, ReadTensor(*reader, entry.name).value()});
  REQUIRE(Write(to, tensors).ok());
}

std::string BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TEST_CASE("a file may have other names of a shared parameter, with the same values") {
  const ScratchDirectory directory;
  const std::string own = directory.File("own"), both = directory.File("both");
  const auto device = OpenCpu();
  Session source = Opened(TwoTowers(), *device, {}, {.seed = 5});
  REQUIRE(source.SaveWeights(own).ok());
  const std::vector<float> weight = Stored(source, "a.weight");
  Session session = Opened(TwoTowers(), *device, {}, {.seed = 6});
  const std::vector<float> before = Stored(session, "a.weight");
  REQUIRE(before != weight);
  const auto load = [&](const std::string& dtype, const std::vector<int64_t>& shape,
                        const std::vector<float>& values) {
    WriteWith({{"b.weight", dtype, shape}, BytesOf(values)}, own, both);
    return session.Load(both);
  };
  std::vector<float> other = weight;
  other[4] = std::nextafter(other[4], 2.0F);
  const absl::Status differs = load("F32", {5, 3}, other);
  CHECK(absl::IsInvalidArgument(differs));
  CHECK(differs.message() == both +
                                 ": tensors 'b.weight' and 'a.weight' have other values, but are "
                                 "one parameter of the network");
  CHECK(load("F32", {5, 2}, std::vector<float>(10)).message() ==
        both +
            ": tensor 'b.weight' is F32 5x2, but the network shares it with 'a.weight', F32 5x3");
  CHECK(absl::IsInvalidArgument(load("I32", {5, 3}, weight)));
  CHECK(Stored(session, "a.weight") == before);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{5, 3}, {5, 3, 1, 1}}) {
    const absl::Status loaded = load("F32", shape, weight);
    CHECK_MESSAGE(loaded.ok(), loaded.ToString());
    CHECK(Stored(session, "a.weight") == weight);
  }
}

TEST_CASE("a tensor of a file may have other extents of 1 at its end, but no others") {
  const ScratchDirectory directory;
  const std::string own = directory.File("own"), other = directory.File("other");
  const auto device = OpenCpu();
  Session source = Opened(TwoTowers(), *device, {}, {.seed = 5});
  REQUIRE(source.SaveWeights(own).ok());
  Session session = Opened(TwoTowers(), *device, {}, {.seed = 6});
  const auto load = [&](const std::vector<int64_t>& shape) {
    const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(own);
    REQUIRE(reader.ok());
    std::vector<WrittenTensor> tensors;
    for (SafetensorsEntry entry : reader->entries()) {
      const std::string bytes = ReadTensor(*reader, entry.name).value();
      if (entry.name == "a.weight") entry.shape = shape;
      tensors.push_back({entry, bytes});
    }
    REQUIRE(Write(other, tensors).ok());
    return session.Load(other);
  };
  CHECK(load({5, 3, 1, 1}).ok());
  CHECK(Stored(session, "a.weight") == Stored(source, "a.weight"));
  CHECK(load({5, 3}).ok());
  CHECK(absl::IsInvalidArgument(load({5, 1, 3})));
  CHECK(absl::IsInvalidArgument(load({15})));
}

TEST_CASE("weights in memory may have other names of a shared parameter, with the same values") {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(), *device);
  NamedValues weights;
  const std::vector<NamedTensor> own = session.Weights().value();
  for (const NamedTensor& tensor : own) weights[tensor.name] = tensor.values;
  for (float& value : weights["a.bias"]) value = 0.5F;
  weights["b.bias"] = weights["a.bias"];
  weights["b.weight"] = weights["a.weight"];
  const absl::Status loaded = session.LoadWeights(weights);
  REQUIRE_MESSAGE(loaded.ok(), loaded.ToString());
  CHECK(Stored(session, "a.bias") == weights["a.bias"]);
  weights["a.bias"][0] = 0.0F;
  weights["b.bias"][0] = -0.0F;  // other bits
  const absl::Status differs = session.LoadWeights(weights);
  CHECK(absl::IsInvalidArgument(differs));
  CHECK(differs.message() ==
        "tensors 'b.bias' and 'a.bias' have other values, but are one parameter of the network");
  weights.erase("a.bias");
  CHECK(session.LoadWeights(weights).message() == "tensor 'a.bias' is missing");
  CHECK(Stored(session, "a.bias") == std::vector<float>(5, 0.5F));
}

}  // namespace
}  // namespace neap
