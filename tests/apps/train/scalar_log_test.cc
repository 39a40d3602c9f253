#include "apps/train/report/scalar_log.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/apps/command.h"
#include "tests/apps/train/tiny_training.h"

namespace neap::testing {
namespace {

using apps::ScalarLog;

// A reader of event files of its own: CRC-32C bit by bit, and any field of any message.
uint32_t MaskedCrc(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

template <typename T>
T Take(std::string& bytes) {
  T value = {};
  REQUIRE(bytes.size() >= sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.erase(0, sizeof value);
  return value;
}

std::string Take(std::string& bytes, size_t count) {
  REQUIRE(bytes.size() >= count);
  std::string taken = bytes.substr(0, count);
  bytes.erase(0, count);
  return taken;
}

uint64_t TakeVarint(std::string& bytes) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = Take<uint8_t>(bytes);
    value |= uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
}

// The bytes of each field by its number; of a varint, its value as 8 bytes.
std::multimap<uint64_t, std::string> FieldsOf(std::string message) {
  std::multimap<uint64_t, std::string> fields;
  while (!message.empty()) {
    const uint64_t key = TakeVarint(message);
    std::string value;
    switch (key & 7) {
      case 0: {
        const uint64_t number = TakeVarint(message);
        value.assign(reinterpret_cast<const char*>(&number), sizeof number);
        break;
      }
      case 1:
        value = Take(message, 8);
        break;
      case 2:
        value = Take(message, TakeVarint(message));
        break;
      case 5:
        value = Take(message, 4);
        break;
      default:
        FAIL("wire type ", key & 7);
    }
    fields.emplace(key >> 3, value);
  }
  return fields;
}

template <typename T>
T Only(const std::multimap<uint64_t, std::string>& fields, uint64_t number) {
  REQUIRE(fields.count(number) == 1);
  std::string bytes = fields.find(number)->second;
  return Take<T>(bytes);
}

struct Logged {
  int64_t step = 0;
  double seconds = 0;
  std::map<std::string, float> scalars = {};
};

std::vector<Logged> ReadEvents(const std::string& path) {
  std::string bytes = ReadText(path);
  std::vector<Logged> events;
  bool is_first = true;
  while (!bytes.empty()) {
    const std::string size = Take(bytes, 8);
    CHECK(Take<uint32_t>(bytes) == MaskedCrc(size));
    std::string copy = size;
    const std::string message = Take(bytes, Take<uint64_t>(copy));
    CHECK(Take<uint32_t>(bytes) == MaskedCrc(message));
    const auto fields = FieldsOf(message);
    if (std::exchange(is_first, false)) {
      CHECK(fields.find(3)->second == "brain.Event:2");
      continue;
    }
    Logged event = {.step = Only<int64_t>(fields, 2), .seconds = Only<double>(fields, 1)};
    const auto summary = FieldsOf(fields.find(5)->second);
    for (const auto& [number, text] : summary) {
      CHECK(number == 1);
      const auto value = FieldsOf(text);
      event.scalars[value.find(1)->second] = Only<float>(value, 2);
    }
    events.push_back(event);
  }
  return events;
}

std::vector<std::string> EventFilesIn(const std::string& directory) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents."))
      found.push_back(entry.path());
  }
  return found;
}

TEST_CASE("CRC-32C is that of RFC 3720") {
  const uint32_t masked = MaskedCrc(std::string(32, '\0'));
  const uint32_t rotated = masked - 0xA282EAD8U;
  CHECK(((rotated >> 17) | (rotated << 15)) == 0x8A9136AA);
}

TEST_CASE("steps and validations are in the event file and in the CSV, to which runs append") {
  const ScratchDirectory root;
  const std::string directory = root.File("deep/logs");
  const auto log = ScalarLog::Create(directory);
  REQUIRE(log.ok());
  (*log)->Step({.step = 299, .loss = 0.5F, .correct = 24}, {.epoch = 2,
                                                            .labels = 32,
                                                            .images_per_second = 1234.5,
                                                            .learning_rate = 0.1F,
                                                            .arena_bytes = 1 << 20});
  (*log)->Validation(300, 2,
                     {.correct = 6, .images = 8, .labels = 8, .loss = 0.75, .correct_top5 = 7});
  CHECK((*log)->status().ok());

  REQUIRE(EventFilesIn(directory).size() == 1);
  const std::vector<Logged> events = ReadEvents(EventFilesIn(directory).front());
  REQUIRE(events.size() == 2);
  CHECK(events[0].step == 300);
  CHECK(events[0].scalars == std::map<std::string, float>{{"train/loss", 0.5F},
                                                          {"train/accuracy", 0.75F},
                                                          {"train/images_per_second", 1234.5F},
                                                          {"train/learning_rate", 0.1F},
                                                          {"train/arena_bytes", 1048576.0F}});
  CHECK(events[1].scalars == std::map<std::string, float>{{"validation/loss", 0.75F},
                                                          {"validation/top1", 0.75F},
                                                          {"validation/top5", 0.875F}});
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  CHECK(std::chrono::duration<double>(now).count() - events[0].seconds < 3600);

  REQUIRE(ScalarLog::Create(directory).ok());  // another run
  const std::string header =
      "step,epoch,loss,accuracy,images_per_second,learning_rate,arena_bytes,validation_loss,"
      "validation_top1,validation_top5\n";
  CHECK(ReadText(directory + "/scalars.csv") ==
        header + "300,2,0.5,0.75,1234.5,0.100000001,1048576,,,\n300,2,,,,,,0.75,0.75,0.875\n");
}

TEST_CASE("a log that cannot be written is an error that names the file") {
  const ScratchDirectory root;
  WriteText(root.File("file"), "");
  const Args args = Joined(kTiny, {"--steps", "2", "--log-dir", root.File("file/logs")});
  CheckRefused(args, 1, {"--log-dir", root.File("file/logs")});
  std::filesystem::create_directory(root.File("full"));
  std::filesystem::create_symlink("/dev/full", root.File("full/scalars.csv"));
  const Outcome outcome = RunNeap(Joined(kTiny, {"--steps", "2", "--log-dir", root.File("full")}));
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.err.find("scalars.csv: cannot be written: No space left on device") !=
        std::string::npos);
}

TEST_CASE("neap train --log-dir logs every step with the losses that it prints") {
  const ScratchDirectory root;
  const std::string directory = root.File("logs");
  const std::vector<std::string> losses = LossesOf(
      RunForJson(Joined(kTiny, {"--steps", "4", "--log-every", "1", "--log-dir", directory})));
  const std::vector<std::vector<std::string>> lines = ReadCsv(directory + "/scalars.csv");
  const std::vector<Logged> events = ReadEvents(EventFilesIn(directory).at(0));
  REQUIRE(lines.size() == 5);
  REQUIRE(events.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(lines[i + 1][0] == std::to_string(i + 1));
    CHECK(lines[i + 1][2] == losses[i]);
    CHECK(events[i].step == static_cast<int64_t>(i) + 1);
    CHECK(events[i].scalars.at("train/loss") == std::stof(losses[i]));
  }
}

}  // namespace
}  // namespace neap::testing
