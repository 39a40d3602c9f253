#include "neap/core/checkpoint/checkpoint.h"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "neap/core/checkpoint/safetensors.h"
#include "neap/core/program/program.h"
#include "tests/core/run/half_training.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

// A file that has only weights, with these metadata.
void WriteNothing(const std::string& path, const SafetensorsMetadata& metadata) {
  absl::StatusOr<SafetensorsWriter> writer = SafetensorsWriter::Create(path, {}, metadata);
  REQUIRE(writer.ok());
  REQUIRE(writer->Commit().ok());
}

using testing::OpenHalf;
using testing::StateOf;

bool Says(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

// Writes what the session has, but with `values` for one tensor.
absl::Status SaveWith(const std::string& name, const std::vector<float>& values, Session& session,
                      CheckpointContents contents, DType weights, const std::string& path) {
  const Program program =
      BuildProgram(SmallNet(Layout::kChannelsFirst, true, DType::kFp16), {}).value();
  const auto read = [&](const Tensor& tensor) -> absl::StatusOr<std::vector<float>> {
    if (tensor.name == name) return values;
    return session.Values(tensor.name);
  };
  return SaveCheckpoint(path, program, contents, {.step = 3, .seed = 5}, read, weights);
}

TEST_CASE("a checkpoint's position is read without its tensors; weights have none") {
  const ScratchDirectory directory;
  const std::string path = directory.File("c");
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {}, {.seed = 5});
  for (const int64_t step : {0, 2}) {
    Train(session, static_cast<int>(step));
    REQUIRE(session.Save(path).ok());
    const auto position = ReadTrainingPosition(path);
    REQUIRE(position.ok());
    REQUIRE(position->has_value());
    CHECK((*position)->step == step);
    CHECK((*position)->seed == 5);
  }
  REQUIRE(session.SaveWeights(path).ok());
  CHECK(!ReadTrainingPosition(path)->has_value());
  CHECK(absl::IsNotFound(ReadTrainingPosition(directory.File("none")).status()));
}

TEST_CASE("training resumes from a checkpoint of step 0") {
  const ScratchDirectory directory;
  const std::string path = directory.File("c");
  const auto device = OpenCpu();
  Session first = MakeSession(*device, {}, {.seed = 5});
  REQUIRE(first.Save(path).ok());
  Session second = MakeSession(*device, {}, {.seed = 6});
  REQUIRE(second.Load(path).ok());
  Train(first, 2);
  Train(second, 2);
  CheckSameState(first, second);
}

TEST_CASE("a step or a seed that is not a number from 0 is DATA_LOSS") {
  const ScratchDirectory directory;
  const std::string path = directory.File("c");
  for (const char* const step : {"-1", "x", "", "9223372036854775808", "1.5"}) {
    CAPTURE(step);
    WriteNothing(path, {{"neap.step", step}, {"neap.seed", "1"}});
    CHECK(absl::IsDataLoss(ReadTrainingPosition(path).status()));
  }
  WriteNothing(path, {{"neap.step", "1"}, {"neap.seed", "-1"}});
  CHECK(absl::IsDataLoss(ReadTrainingPosition(path).status()));
}

TEST_CASE("one flipped bit anywhere in a checkpoint's tensors is found before anything is loaded") {
  const ScratchDirectory directory;
  const std::string path = directory.File("c");
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {});
  Train(session, 1);
  REQUIRE(session.Save(path).ok());
  const std::string good = ReadText(path);
  Session other = MakeSession(*device, {}, {.seed = 9});
  Session untouched = MakeSession(*device, {}, {.seed = 9});
  const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(path);
  REQUIRE(reader.ok());
  for (const SafetensorsEntry& entry : reader->entries()) {
    CAPTURE(entry.name);
    std::string bad = good;
    const auto at = static_cast<size_t>(entry.offset + entry.size_bytes / 2);
    bad[at] = static_cast<char>(bad[at] ^ 1);
    WriteText(path, bad);
    CHECK(absl::IsDataLoss(other.Load(path)));
  }
  CheckSameState(other, untouched);
  WriteText(path, good);
  CHECK(other.Load(path).ok());
}

TEST_CASE("weights are written in a floating-point type, and no other") {
  const ScratchDirectory directory;
  const std::string path = directory.File("w");
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {});
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
    CAPTURE(Name(dtype));
    const absl::Status saved = session.SaveWeights(path, dtype);
    CHECK_MESSAGE(saved.ok(), saved.ToString());
    CHECK(session.Load(path).ok());
  }
  const std::string before = ReadText(path);
  for (const DType dtype : {DType::kTf32, DType::kUInt8, DType::kInt32}) {
    CAPTURE(Name(dtype));
    const absl::Status refused = session.SaveWeights(path, dtype);
    CHECK(absl::IsInvalidArgument(refused));
    CHECK(refused.message() ==
          "weights are written as fp32, fp16 or bf16, not " + std::string(Name(dtype)));
    CHECK(ReadText(path) == before);
  }
}

TEST_CASE("a finite weight that would become infinite in 16 bits is refused by its tensor's name") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const ScratchDirectory directory;
  const std::string path = directory.File("w");
  const auto device = OpenCpu();
  Session session = OpenHalf(*device, DType::kFp16);
  const auto save = [&](float value, DType dtype) {
    return SaveWith("fc.bias", {0, 1, value, 3}, session, CheckpointContents::kWeights, dtype,
                    path);
  };
  REQUIRE(save(65519, DType::kFp16).ok());  // rounds to 65504
  const std::string before = ReadText(path);
  for (const float value : {65520.0F, -7e4F, 3.4e38F}) {
    CAPTURE(value);
    const absl::Status refused = save(value, DType::kFp16);
    CHECK(absl::IsInvalidArgument(refused));
    CHECK(Says(refused, "tensor 'fc.bias' has the value "));
    CHECK(Says(refused, ", which is too large for fp16; write bf16"));
  }
  CHECK(Says(save(3.4e38F, DType::kBf16), "too large for bf16; write fp32"));
  CHECK(ReadText(path) == before);
  CHECK(save(65520, DType::kBf16).ok());
  CHECK(save(3.4e38F, DType::kFp32).ok());
  CHECK(save(kInfinity, DType::kFp16).ok());  // as it is
}

TEST_CASE("a loss scale that training cannot reach is DATA_LOSS, and nothing is loaded") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const ScratchDirectory directory;
  const std::string path = directory.File("c");
  const auto device = OpenCpu();
  Session source = OpenHalf(*device, DType::kFp16);
  Session session = OpenHalf(*device, DType::kFp16, {}, {.seed = 9});
  const auto before = StateOf(session);
  const auto load = [&](const std::vector<float>& loss_scale) {
    REQUIRE(SaveWith("loss_scale", loss_scale, source, CheckpointContents::kEverything,
                     DType::kFp32, path)
                .ok());
    return session.Load(path);
  };
  using Values = std::array<float, 4>;  // scale, good steps, overflow, skipped
  for (const Values& wrong :
       {Values{0, 0, 0, 0}, Values{-1, 0, 0, 0}, Values{0.5F, 0, 0, 0}, Values{3, 0, 0, 0},
        Values{33554432, 0, 0, 0}, Values{kNan, 0, 0, 0}, Values{kInfinity, 0, 0, 0},
        Values{8, -1, 0, 0}, Values{8, 0.5F, 0, 0}, Values{8, 2000, 0, 0}, Values{8, kNan, 0, 0},
        Values{8, 0, 1, 0}, Values{8, 0, kNan, 0}, Values{8, 0, 0, -1}, Values{8, 0, 0, 1.5F},
        Values{8, 0, 0, 16777218}, Values{8, 0, 0, 1e30F}, Values{8, 0, 0, kNan}}) {
    const absl::Status refused = load({wrong.begin(), wrong.end()});
    CAPTURE(refused.ToString());
    CHECK(absl::IsDataLoss(refused));
    CHECK(Says(refused, "tensor 'loss_scale' is "));
    CHECK(Says(refused, "(scale, good steps, overflow, skipped steps), which training cannot"));
  }
  CHECK(StateOf(session) == before);
  for (const Values& right : {Values{1, 0, 0, 0}, Values{16777216, 1999, 0, 16777216}}) {
    const absl::Status loaded = load({right.begin(), right.end()});
    CHECK_MESSAGE(loaded.ok(), loaded.ToString());
    CHECK(*session.Values("loss_scale") == std::vector<float>(right.begin(), right.end()));
  }
}

TEST_CASE("weights in memory load like a file with them; what does not fit names the tensor") {
  const ScratchDirectory directory;
  const auto device = OpenCpu();
  Session source = MakeSession(*device, {}, {.seed = 5});
  Train(source, 2);
  REQUIRE(source.SaveWeights(directory.File("w")).ok());
  for (const DType dtype : {DType::kFp32, DType::kFp16}) {
    const Program program = BuildProgram(SmallNet(Layout::kChannelsLast, true, dtype), {}).value();
    const absl::StatusOr<NamedValues> weights = ReadWeights(directory.File("w"), program);
    REQUIRE(weights.ok());
    for (const auto& [name, values] : *weights) CHECK(values == *source.Values(name));

    Session session = MakeSession(*device, {}, {.seed = 9});
    Train(session, 1);
    REQUIRE(session.LoadWeights(*weights).ok());
    CHECK(session.step() == 0);
    REQUIRE(session.SaveWeights(directory.File("again")).ok());
    CHECK(ReadText(directory.File("again")).size() == ReadText(directory.File("w")).size());
    for (const auto& [name, values] : *weights) CHECK(*session.Values(name) == values);

    NamedValues wrong = *weights;
    wrong.erase("fc.bias");
    CHECK(Says(session.LoadWeights(wrong), "tensor 'fc.bias' is missing"));
    wrong["fc.bias"] = {1};
    CHECK(Says(session.LoadWeights(wrong), "tensor 'fc.bias' has 1 values, but the network has 4"));
    wrong = *weights;
    wrong["gone"] = {1};
    CHECK(Says(session.LoadWeights(wrong), "tensor 'gone' does not belong to this network"));
    CHECK(*session.Values("fc.bias") == weights->at("fc.bias"));
  }
}

}  // namespace
}  // namespace neap
