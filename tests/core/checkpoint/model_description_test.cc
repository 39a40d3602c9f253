#include "neap/core/checkpoint/model_description.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "neap/core/checkpoint/safetensors.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

// A file of weights that has no tensors, with these metadata.
std::string FileWith(const ScratchDirectory& directory, const FileMetadata& metadata) {
  const std::string path = directory.File("w.safetensors");
  absl::StatusOr<SafetensorsWriter> writer = SafetensorsWriter::Create(path, {}, metadata);
  REQUIRE(writer.ok());
  REQUIRE(writer->Commit().ok());
  return path;
}

TEST_CASE("a file says which network its weights are of, and the names of the classes") {
  const ScratchDirectory directory;
  const ModelDescription model = {.net = "resnet-cifar",
                                  .flags = {"--depth", "8", "--classes", "2"},
                                  .classes = {"ant, or \"emmet\"", "\xC3\xA9tourneau"}};
  const auto read = ReadModelDescription(FileWith(directory, ToMetadata(model)));
  REQUIRE(read.ok());
  CHECK(read->net == model.net);
  CHECK(read->flags == model.flags);
  CHECK(read->classes == model.classes);
}

TEST_CASE(
    "a file of another program says nothing, and one of a folder that is not UTF-8 is written") {
  const ScratchDirectory directory;
  const auto read = ReadModelDescription(FileWith(directory, {{"format", "pt"}}));
  REQUIRE(read.ok());
  CHECK(read->net.empty());
  CHECK(read->flags.empty());
  CHECK(read->classes.empty());
  const std::string latin = "\xE9tourneau";
  const auto without = ReadModelDescription(
      FileWith(directory, ToMetadata({.net = "lenet", .classes = {"ant", latin}})));
  REQUIRE(without.ok());
  CHECK(without->net == "lenet");
  CHECK(without->classes.empty());
}

TEST_CASE("names of classes that are no list of texts are DATA_LOSS") {
  const ScratchDirectory directory;
  for (const char* classes : {"ant", "{\"0\": \"ant\"}", "[1]", "[\"ant\", null]"}) {
    CAPTURE(classes);
    CHECK(absl::IsDataLoss(
        ReadModelDescription(FileWith(directory, {{"neap.classes", classes}})).status()));
  }
  CHECK(absl::IsNotFound(ReadModelDescription(directory.File("none")).status()));
}

}  // namespace
}  // namespace neap::testing
