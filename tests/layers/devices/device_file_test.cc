#include "neap/layers/devices/device_file.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "neap/core/base/units.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fusion/rules.h"
#include "tests/scratch_directory.h"
#include "tests/source_tree.h"

namespace neap::testing {
namespace {

using Json = nlohmann::ordered_json;

// Every field has another value, and none has its default.
DeviceDescription FullDescription() {
  return {.name = "GPU \"\u00e9\"",
          .kind = "cuda",
          .memory_bytes = 25393692672,
          .host_memory_bytes = 64 * kGiB + 1,
          .fp32_flops = 82.6e12,
          .tf32_flops = 100.0 / 3 * 1e12,
          .half_flops = 165.2e12,
          .bf16_flops = 82.7e12,
          .memory_bandwidth = 1008e9,
          .copy_bandwidth = 25.1e9,
          .peer_bandwidth = 1.0 / 3 * 1e12,
          .copy_latency_seconds = 5e-6,
          .slowdown_by_copies_out = 0.02,
          .slowdown_by_copies_back = 0.06,
          .collective_bandwidth = 235e9,
          .collective_latency_seconds = 4e-5,
          .slowdown_by_sums = 0.25,
          .collective_interference_seconds = 90e-6,
          .folding_types = {DType::kFp16, DType::kTf32},
          .rules = GpuRules(),
          .page_bytes = 2 * kMiB,
          .has_own_memory = true,
          .gpu = GpuProperties{.compute_capability = 121,
                               .multiprocessors = 48,
                               .clock_khz = 2'418'000,
                               .memory_clock_khz = 8'533'000,
                               .memory_bus_bits = 256,
                               .l2_cache_bytes = 24 * kMiB,
                               .threads_per_multiprocessor = 1536,
                               .blocks_per_multiprocessor = 23,
                               .shared_memory_per_block_bytes = 99 * kKiB,
                               .reserved_shared_memory_per_block_bytes = kKiB}};
}

Json FullFile() { return Json::parse(DeviceToJson(FullDescription())); }

std::string ErrorOf(const Json& json) {
  const absl::Status status = DeviceFromJson(json.dump()).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST_CASE("a description is read back as it was written, and written again to the byte") {
  std::vector<DeviceDescription> devices = {FullDescription()};
  for (const std::string& name : DescribedDeviceNames())
    devices.push_back(DescribedDevice(name).value());
  DeviceDescription cpu = {.name = "some CPU",
                           .kind = "cpu",
                           .memory_bytes = kGiB,
                           .fp32_flops = 80e9,
                           .tf32_flops = 80e9,
                           .half_flops = 80e9,
                           .memory_bandwidth = 20e9,
                           .copy_bandwidth = 8e9,
                           .rules = CpuRules()};
  devices.push_back(cpu);
  for (const DeviceDescription& device : devices) {
    CAPTURE(device.name);
    const std::string text = DeviceToJson(device);
    const absl::StatusOr<DeviceDescription> read = DeviceFromJson(text);
    REQUIRE_MESSAGE(read.ok(), std::string(read.status().message()));
    CHECK(*read == device);
    CHECK(DeviceToJson(*read) == text);
    CHECK(text.ends_with("}\n"));
  }
}

TEST_CASE("the file in the header's comment describes an L4") {
  std::string text;
  const std::string header = ReadText((SourceTree() / "layers/devices/device_file.h").string());
  size_t begin = header.find("//  {");
  const size_t end = header.find("}}\n", begin) + 2;
  REQUIRE(end > begin);
  for (; begin < end; begin = header.find('\n', begin) + 1)
    text += header.substr(begin + 2, std::min(header.find('\n', begin), end) - begin - 2) + "\n";
  absl::StatusOr<DeviceDescription> read = DeviceFromJson(text);
  REQUIRE_MESSAGE(read.ok(), std::string(read.status().message()));
  DeviceDescription l4 = DescribedDevice("l4").value();
  l4.peer_bandwidth = 0;
  CHECK(*read == l4);
}

TEST_CASE("whole numbers stand for rates, and the order of fields does not matter") {
  Json file = FullFile();
  file["copy_bytes_per_second"] = 25000000000;
  CHECK(DeviceFromJson(file.dump())->copy_bandwidth == 25e9);
  const Json whole = FullFile();
  Json turned = Json::object();
  std::vector<std::string> keys;
  for (const auto& [key, value] : whole.items()) keys.push_back(key);
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) turned[*key] = whole[*key];
  CHECK(DeviceFromJson(turned.dump()).value() == FullDescription());
}

TEST_CASE("a field that is missing is named, except for the two that may be") {
  const Json whole = FullFile();
  int refused = 0;
  for (const auto& item : whole.items()) {
    const std::string key = item.key();
    CAPTURE(key);
    Json file = whole;
    file.erase(key);
    if (key == "gpu" || key == "bf16_flops_per_second") {
      CHECK(DeviceFromJson(file.dump()).ok());
      continue;
    }
    CHECK(ErrorOf(file) == "device: has no field \"" + key + "\"");
    ++refused;
  }
  CHECK(refused == 21);
  for (const auto& [key, value] : whole["gpu"].items()) {
    Json file = FullFile();
    file["gpu"].erase(key);
    CHECK(ErrorOf(file) == "device: gpu: has no field \"" + key + "\"");
  }
}

TEST_CASE("a value of the wrong type is refused with the name of its field") {
  const Json whole = FullFile();
  for (const Json& wrong :
       {Json("text"), Json(true), Json(nullptr), Json::object(), Json(0.5), Json::array({1})}) {
    for (const auto& [key, value] : whole.items()) {
      const bool is_fine = value.type() == wrong.type() ||
                           (value.is_number_float() && wrong.is_number()) || key == "gpu";
      if (is_fine && key != "folding_types" && key != "kind" && key != "gpu") continue;
      Json file = whole;
      file[key] = wrong;
      CAPTURE(file.dump());
      CHECK(ErrorOf(file).find(key) != std::string::npos);
    }
    for (const auto& [key, value] : whole["gpu"].items()) {
      Json file = whole;
      file["gpu"][key] = wrong;
      CHECK(ErrorOf(file).starts_with("device: gpu: " + key + " is "));
    }
  }
}

TEST_CASE("a field that nobody knows is named, wherever it is") {
  Json file = FullFile();
  file["memory"] = 1;
  CHECK(ErrorOf(file) == "device: has an unknown field \"memory\"");
  file = FullFile();
  file["gpu"]["warp_size"] = 32;
  CHECK(ErrorOf(file) == "device: gpu: has an unknown field \"warp_size\"");
}

TEST_CASE("numbers that no device has are refused with the range") {
  const auto refusal = [](const char* key, const Json& value) {
    Json file = FullFile();
    file[key] = value;
    return ErrorOf(file);
  };
  CHECK(refusal("memory_bytes", -1) ==
        "device: memory_bytes is -1, not from 1 to 1152921504606846976");
  CHECK(refusal("memory_bytes", 0) ==
        "device: memory_bytes is 0, not from 1 to 1152921504606846976");
  CHECK(refusal("memory_bytes", uint64_t{1} << 61) ==
        "device: memory_bytes is not an integer from -2^60 to 2^60");
  CHECK(refusal("memory_bytes", 1.5) ==
        "device: memory_bytes is not an integer from -2^60 to 2^60");
  CHECK(refusal("host_memory_bytes", -1).find("not from 0") != std::string::npos);
  CHECK(refusal("page_bytes", 0).find("not from 1") != std::string::npos);
  for (const char* const rate :
       {"fp32_flops_per_second", "tf32_flops_per_second", "half_flops_per_second",
        "bf16_flops_per_second", "memory_bytes_per_second", "copy_bytes_per_second"}) {
    for (const Json& value : {Json(0), Json(-1e9), Json(0.5), Json(1e25)})
      CHECK(refusal(rate, value).find(std::string(rate) + " is ") != std::string::npos);
  }
  CHECK(refusal("copy_bytes_per_second", 0) ==
        "device: copy_bytes_per_second is 0, not from 1 to 1e+24");
  for (const char* const part :
       {"peer_bytes_per_second", "collective_bytes_per_second", "collective_latency_seconds",
        "copy_latency_seconds", "slowdown_by_copies_out", "slowdown_by_copies_back",
        "slowdown_by_sums", "doubled_by_sums_seconds"}) {
    CHECK(refusal(part, -1e-9).find(std::string(part) + " is -1e-09, not from 0 to ") !=
          std::string::npos);
    CHECK(refusal(part, 1e25).find(std::string(part) + " is 1e+25") != std::string::npos);
    Json file = FullFile();
    file[part] = 0;
    CHECK(DeviceFromJson(file.dump()).ok());
  }
  for (const int64_t value : {int64_t{0}, int64_t{-1}, int64_t{1} << 31}) {
    Json file = FullFile();
    file["gpu"]["multiprocessors"] = value;
    CHECK(ErrorOf(file).find("gpu: multiprocessors is ") != std::string::npos);
  }
  std::string infinite = FullFile().dump();
  const std::string rate = "\"copy_bytes_per_second\":";
  infinite.insert(infinite.find(rate) + rate.size(), "1e999,\"x\":");
  CHECK(DeviceFromJson(infinite).status().message() ==
        "device: a number is too large: numbers are at most 1.8e308");
}

TEST_CASE("a kind, a name, a type or a version that there is not is refused") {
  const auto refusal = [](const char* key, const Json& value) {
    Json file = FullFile();
    file[key] = value;
    return ErrorOf(file);
  };
  CHECK(refusal("kind", "tpu") == "device: kind is \"tpu\"; there are cuda and cpu");
  CHECK(refusal("kind", "cpu") == "device: a cpu has no gpu");
  CHECK(refusal("neap_device", 2) == "device: this file has format 2; this version reads format 1");
  for (const std::string& name : {std::string(), std::string("a\nb"), std::string(257, 'a')})
    CHECK(refusal("name", name) ==
          "device: name is not a text of 1 to 256 bytes without control characters");
  for (const Json& types : {Json{"fp64"}, Json{"int32"}, Json::array({1}), Json{"tf32", nullptr}})
    CHECK(refusal("folding_types", types) ==
          "device: folding_types holds something other than fp32, tf32, fp16 and bf16");
  for (const char* const version :
       {"", "8", "8.", ".9", "8.9.1", "8.10", "89", "x.9", "8.x", "0.9", "123.4", " 8.9", "-8.9"}) {
    Json file = FullFile();
    file["gpu"]["compute_capability"] = version;
    CHECK(ErrorOf(file) == std::string("device: gpu: compute_capability is \"") + version +
                               "\", not a version such as \"8.9\"");
  }
}

TEST_CASE("what is not a description is refused") {
  for (const char* const text : {"", "{", "nonsense", "[]", "1", "null", "{}", "\xff\xfe"}) {
    CAPTURE(text);
    const absl::Status status = DeviceFromJson(text).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(status.message()).starts_with("device: "));
  }
  std::string twice = FullFile().dump();
  twice.insert(1, "\"name\":\"other\",");
  CHECK(DeviceFromJson(twice).status().message() ==
        "device: an object has the field \"name\" twice");
}

TEST_CASE("the error of a file begins with its path") {
  const ScratchDirectory directory;
  const std::string path = directory.File("card.json");
  CHECK(ReadDeviceFile(path).status().code() == absl::StatusCode::kNotFound);
  CHECK(std::string(ReadDeviceFile(path).status().message()).starts_with(path + ": "));
  CHECK(std::string(ReadDeviceFile(directory.path()).status().message())
            .starts_with(directory.path() + ": "));
  WriteText(path, DeviceToJson(FullDescription()));
  CHECK(ReadDeviceFile(path).value() == FullDescription());
  Json file = FullFile();
  file["memory_bytes"] = "24 GiB";
  WriteText(path, file.dump());
  CHECK(ReadDeviceFile(path).status().message() ==
        path + ": device: memory_bytes is not an integer from -2^60 to 2^60");
  WriteText(path, std::string(size_t{2} << 20, ' '));
  CHECK(ReadDeviceFile(path).status().message() ==
        path + ": has 2097152 bytes; at most 1048576 are read");
}

}  // namespace
}  // namespace neap::testing
