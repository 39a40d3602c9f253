// neap train in 16 bits.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/apps/command.h"
#include "tests/apps/train/tiny_training.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

// A batch for kTiny whose pixels are all `value`.
std::string BatchOf(float value) {
  std::string bytes;
  const auto append = [&bytes](const auto& number) {
    std::array<char, 4> raw = {};
    std::memcpy(raw.data(), &number, 4);
    bytes.append(raw.data(), 4);
  };
  for (int i = 0; i < 16 * 64; ++i) append(value);
  for (int32_t i = 0; i < 16; ++i) append(i % 10);
  return bytes;
}

// Sets all values of an fp32 tensor of a safetensors file, which begins with the header's length.
// Its checksums get other names.
void FillTensor(const std::string& file, const std::string& name, float value) {
  std::string bytes = ReadText(file);
  for (const std::string checksum : {"neap.header_crc32", "neap.data_crc32"})
    bytes.replace(bytes.find(checksum), 4, "test");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  const Json offsets = Json::parse(bytes.substr(8, header_bytes)).at(name).at("data_offsets");
  for (size_t at = offsets.at(0).get<size_t>(); at < offsets.at(1).get<size_t>(); at += 4)
    std::memcpy(bytes.data() + 8 + header_bytes + at, &value, 4);
  WriteText(file, bytes);
}

}  // namespace

TEST_CASE("a network learns handwritten digits in 16 bits: at least 96% of the test images") {
  const Args digits = {"train",      "resnet-cifar",
                       "--depth",    "8",
                       "--image",    "16",
                       "--channels", "1",
                       "--data",     "idx:" + Digits(),
                       "--batch",    "32",
                       "--epochs",   "9",
                       "--lr",       "0.1",
                       "--augment",  "--warmup",
                       "20",         "--device",
                       "cpu",        "--lr-schedule",
                       "cosine",     "--weight-decay",
                       "5e-4",       "--eval"};
  for (const std::string dtype : {"bf16", "fp16"}) {
    CAPTURE(dtype);
    const Json end = RunForJson(Joined(digits, {"--dtype", dtype})).back();
    CHECK(end.at("evaluation").at("accuracy").get<double>() >= 0.96);
    CHECK(end.at("peaks_equal") == true);
  }
}

//   step    1      2      ...  16  17
//   scale   65536  32768       2   1    the last one has tried them all
TEST_CASE("steps that overflow are counted, until one does with the smallest scale") {
  const ScratchDirectory directory;
  const std::string file = directory.File("batch");
  WriteText(file, BatchOf(1e30F));  // infinite in fp16
  const Args args = Joined(kTiny, {"--dtype", "fp16", "--batch-file", file, "--log-every", "1"});
  const Outcome few = RunNeap(Joined(args, {"--steps", "3"}));
  CHECK(few.exit_code == 0);
  CHECK(few.out.find("done after 3 steps") != std::string::npos);
  CHECK(few.out.find("3 of all steps skipped (a gradient overflowed), loss scale 8192") !=
        std::string::npos);
  CHECK(few.out.find("step 3/3  loss not finite  lr") != std::string::npos);
  const std::vector<Json> lines = RunForJson(Joined(args, {"--steps", "3"}));
  CHECK(lines.at(1).at("skipped_steps") == 1);
  CHECK(lines.at(1).at("mean_loss").is_null());
  CHECK(lines.at(1).at("mean_accuracy").is_null());
  CHECK(lines.back().at("skipped_steps") == 3);
  CHECK(lines.back().at("loss_scale") == 8192);
  const Outcome all = RunNeap(Joined(args, {"--steps", "40"}));
  CHECK(all.exit_code == 1);
  CHECK(all.err.find("the loss is nan at step 17, with the smallest loss scale, 1: training has "
                     "diverged; a lower --lr or a --warmup may help") != std::string::npos);
  // The loaded count of skipped steps does not excuse a step, nor does a smaller scale.
  const std::string checkpoint = directory.File("checkpoint");
  REQUIRE(RunNeap(Joined(args, {"--steps", "15", "--save", checkpoint})).exit_code == 0);
  const Outcome resumed = RunNeap(Joined(args, {"--steps", "40", "--resume", checkpoint}));
  CHECK(resumed.err.find("the loss is nan at step 17, with the smallest loss scale, 1") !=
        std::string::npos);
  const Outcome bf16 = RunNeap(Joined(kTiny, {"--dtype", "bf16", "--batch-file", file}));
  CHECK(bf16.exit_code == 0);  // in its range, and normalised
}

TEST_CASE("training that skips step after step ends, even if the loss is finite") {
  const ScratchDirectory directory;
  const std::string batch = directory.File("batch"), weights = directory.File("weights");
  WriteText(batch, BatchOf(0));  // hides large weights from the loss, but not from the gradients
  REQUIRE(RunNeap(Joined(kTiny, {"--steps", "1", "--weights-out", weights})).exit_code == 0);
  FillTensor(weights, "bn1.weight", 1e9F);
  const Args args = Joined(kTiny, {"--dtype", "fp16", "--batch-file", batch, "--weights-in",
                                   weights, "--log-every", "1"});
  const Outcome few = RunNeap(Joined(args, {"--steps", "16"}));
  CHECK(few.exit_code == 0);
  CHECK(few.out.find("  16 skipped, loss scale 1\n") != std::string::npos);
  CHECK(few.out.find("nan") == std::string::npos);
  for (const Json& line : RunForJson(Joined(args, {"--steps", "3"}))) {
    if (line.at("event") == "step") CHECK(line.at("mean_loss") == line.at("loss"));
  }
  const Outcome all = RunNeap(Joined(args, {"--steps", "40"}));
  CHECK(all.exit_code == 1);
  CHECK(all.err.find("a gradient is not finite in 10 steps in a row at step 26, with the smallest "
                     "loss scale, 1: training has diverged") != std::string::npos);
}

TEST_CASE("a run with no step left has neither a loss nor a loss scale") {
  const ScratchDirectory directory;
  const std::string file = directory.File("checkpoint");
  const Args args = Joined(kTiny, {"--dtype", "fp16", "--steps", "2"});
  CHECK(RunForJson(Joined(args, {"--save", file})).back().at("loss_scale").is_number());
  const Json end = RunForJson(Joined(args, {"--resume", file})).back();
  CHECK(end.at("steps") == 0);
  for (const char* field : {"step", "loss", "loss_text", "loss_scale", "skipped_steps"}) {
    CAPTURE(field);
    CHECK(end.at(field).is_null());
  }
}

TEST_CASE("weights are written in the type that is asked for") {
  const ScratchDirectory directory;
  const std::string file = directory.File("weights.safetensors");
  for (const std::string type : {"fp32", "fp16", "bf16"}) {
    RunForJson(Joined(kTiny, {"--dtype", "bf16", "--steps", "1", "--weights-out", file,
                              "--weights-dtype", type}));
    const std::string header = ReadText(file);
    const std::string name = type == "fp32" ? "F32" : type == "fp16" ? "F16" : "BF16";
    CHECK(header.find("\"conv1.weight\":{\"dtype\":\"" + name + "\"") != std::string::npos);
    CHECK(header.find("\"bn1.running_mean\":{\"dtype\":\"F32\"") != std::string::npos);
    RunForJson(Joined(kTiny, {"--steps", "1", "--weights-in", file}));
  }
}

}  // namespace neap::testing
