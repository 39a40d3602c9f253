#include "neap/core/checkpoint/checkpoint.h"

#include <doctest/doctest.h>

#include <string>

#include "neap/core/checkpoint/safetensors.h"
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

}  // namespace
}  // namespace neap
