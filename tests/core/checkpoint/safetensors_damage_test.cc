// Damaged, truncated and half-written safetensors files are noticed.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <string>
#include <utility>

#include "neap/core/checkpoint/safetensors.h"
#include "tests/core/checkpoint/safetensors_files.h"
#include "tests/scratch_directory.h"

namespace neap {
namespace {

// True if the file cannot be opened, or holds what `kTiny` and step 7 say.
bool IsRefusedOrRight(const std::string& path) {
  const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(path);
  if (!reader.ok()) return absl::IsDataLoss(reader.status());
  const absl::StatusOr<std::string> a = ReadTensor(*reader, "a");
  const absl::StatusOr<std::string> b = ReadTensor(*reader, "b");
  const auto step = reader->metadata().find("step");
  return reader->entries().size() == 2 && a.ok() && *a == "xyz" && b.ok() && *b == "1234" &&
         reader->Find("a")->dtype == "U8" && reader->Find("b")->dtype == "F32" &&
         step != reader->metadata().end() && step->second == "7";
}

TEST_CASE("every flipped bit in the header is detected or harmless") {
  const ScratchDirectory directory;
  const std::string path = directory.File("m");
  REQUIRE(Write(path, kTiny, {{"step", "7"}}).ok());
  const std::string good = ReadText(path);
  const size_t header_end = good.size() - 7;
  for (size_t bit = 0; bit < header_end * 8; ++bit) {
    CAPTURE(bit);
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    WriteText(path, bad);
    CHECK(IsRefusedOrRight(path));
  }
}

TEST_CASE("every flipped bit in the tensors is detected, in any order of writing") {
  const ScratchDirectory directory;
  const std::string path = directory.File("m");
  auto writer = SafetensorsWriter::Create(
      path, {{"a", "U8", {5}}, {"empty", "F32", {0}}, {"b", "F32", {2}}, {"c", "I64", {}}});
  REQUIRE(writer.ok());
  const std::pair<const char*, const char*> pieces[] = {
      {"a", "01"}, {"b", "abc"}, {"a", "2"}, {"c", "8 bytes!"}, {"b", "defgh"}, {"a", "34"}};
  for (const auto& [name, text] : pieces) REQUIRE(writer->Append(name, Bytes(text)).ok());
  REQUIRE(writer->Commit().ok());
  const std::string good = ReadText(path);
  CHECK(SafetensorsReader::Open(path)->CheckData().ok());
  const size_t data_begin = good.size() - 21;
  CHECK(good.substr(data_begin) == "8 bytes!abcdefgh01234");
  for (size_t bit = data_begin * 8; bit < good.size() * 8; ++bit) {
    CAPTURE(bit);
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    WriteText(path, bad);
    const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(path);
    REQUIRE(reader.ok());
    const absl::Status status = reader->CheckData();
    CHECK(absl::IsDataLoss(status));
    CHECK(std::string(status.message())
              .find(path + ": byte " + std::to_string(data_begin) +
                    ": the tensors' bytes do not match their checksum") == 0);
  }
}

TEST_CASE("the checksum of no bytes, and of more than are read at once, is right") {
  const ScratchDirectory directory;
  const std::string path = directory.File("m");
  constexpr int64_t kBytes = (3 << 20) + 5;
  REQUIRE(Write(path, {{{"a", "U8", {kBytes}}, std::string(kBytes, 'x')}}).ok());
  CHECK(SafetensorsReader::Open(path)->CheckData().ok());
  REQUIRE(Write(path, {}).ok());
  CHECK(SafetensorsReader::Open(path)->CheckData().ok());
}

TEST_CASE("random damage to the header never crashes and is noticed") {
  const ScratchDirectory directory;
  const std::string path = directory.File("m");
  REQUIRE(Write(path, kTiny, {{"step", "7"}}).ok());
  const std::string good = ReadText(path);
  constexpr uint32_t kSeed = 7;
  CAPTURE(kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    std::string bad = good;
    for (uint32_t i = 0; i < 1 + round % 4U; ++i) {
      bad[random() % (good.size() - 7)] = static_cast<char>(random());
    }
    WriteText(path, bad);
    CHECK(IsRefusedOrRight(path));
  }
}

TEST_CASE("a file truncated or extended anywhere is refused") {
  const ScratchDirectory directory;
  const std::string path = directory.File("m");
  REQUIRE(Write(path, kTiny).ok());
  const std::string good = ReadText(path);
  for (size_t size = 0; size < good.size(); ++size) {
    WriteText(path, good.substr(0, size));
    CHECK(absl::IsDataLoss(SafetensorsReader::Open(path).status()));
  }
  WriteText(path, good + " ");
  CHECK(absl::IsDataLoss(SafetensorsReader::Open(path).status()));
}

TEST_CASE("a file that shrinks after it was opened is DATA_LOSS when it is read") {
  const ScratchDirectory directory;
  const std::string path = directory.File("m");
  REQUIRE(Write(path, kTiny).ok());
  const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(path);
  REQUIRE(reader.ok());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  CHECK(absl::IsDataLoss(ReadTensor(*reader, "a").status()));
  CHECK(ReadTensor(*reader, "b").ok());
}

// Generation g: tensors in which every byte is g % 251, and metadata with g.
absl::Status WriteGeneration(const std::string& path, int generation) {
  const char byte = static_cast<char>(generation % 251);
  return Write(path,
               {{{"large", "F32", {40'000}}, std::string(160'000, byte)},
                {{"small", "U8", {3}}, std::string(3, byte)}},
               {{"generation", std::to_string(generation)}});
}

void CheckIsOneGeneration(const std::string& path) {
  const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(path);
  CAPTURE(std::string(reader.status().message()));
  REQUIRE(reader.ok());
  const int generation = std::stoi(reader->metadata().at("generation"));
  const char byte = static_cast<char>(generation % 251);
  CHECK(*ReadTensor(*reader, "large") == std::string(160'000, byte));
  CHECK(*ReadTensor(*reader, "small") == std::string(3, byte));
}

TEST_CASE("a writer killed at any moment leaves the old file or the new one, whole") {
  const ScratchDirectory directory;
  const std::string path = directory.File("m");
  constexpr uint32_t kSeed = 11;
  CAPTURE(kSeed);
  std::mt19937 random(kSeed);
  REQUIRE(WriteGeneration(path, 0).ok());
  for (int round = 0; round < 25; ++round) {
    CAPTURE(round);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (int generation = 1; WriteGeneration(path, generation + 1000 * round).ok();) ++generation;
      _exit(1);
    }
    usleep(static_cast<useconds_t>(500 + random() % 60'000));
    REQUIRE(kill(child, SIGKILL) == 0);
    int result = 0;
    REQUIRE(waitpid(child, &result, 0) == child);
    CHECK(WIFSIGNALED(result));  // it was still writing, so every write had succeeded
    CheckIsOneGeneration(path);
  }
}

}  // namespace
}  // namespace neap
