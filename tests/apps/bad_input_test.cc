#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>

#include "tests/apps/command.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

TEST_CASE("a wrong command line ends with 2 and one line that says why") {
  CheckRefused({}, 2, {"subcommand"});
  CheckRefused({"trian", "lenet"}, 2, {"'trian'", "train"});
  CheckRefused({"plan"}, 2, {"NET is missing"});
  CheckRefused({"plan", "lenet", "vgg16"}, 2, {"'vgg16'"});
  CheckRefused({"plan", "resnet5o"}, 2, {"'resnet5o'", "resnet50"});
  CheckRefused({"plan", "lenet", "--bacth", "3"}, 2, {"--bacth", "--batch"});
  CheckRefused({"plan", "lenet", "--batch"}, 2, {"--batch needs a value"});
  CheckRefused({"plan", "lenet", "--batch", "--json"}, 2, {"--batch needs a value"});
  CheckRefused({"plan", "lenet", "--batch", "-4"}, 2, {"--batch", "'-4'"});
  CheckRefused({"plan", "lenet", "--batch", "0"}, 2, {"--batch", "'0'"});
  CheckRefused({"plan", "lenet", "--batch", "9999999999999999999"}, 2, {"--batch"});
  CheckRefused({"plan", "lenet", "--json=yes"}, 2, {"--json takes no value"});
  CheckRefused({"plan", "lenet", "--policy", "livness"}, 2, {"'livness'", "liveness"});
  CheckRefused({"plan", "lenet", "--placement", "x"}, 2, {"'x'", "offline"});
  CheckRefused({"plan", "lenet", "--device", "tpu"}, 2, {"'tpu'", "cpu, cuda:N, k40c"});
  CheckRefused({"plan", "lenet", "--device", ""}, 2, {"--device"});
  CheckRefused({"train", "lenet", "--device", "h200"}, 2, {"h200", "not run on"});
  CheckRefused({"plan", "lenet", "--device", "h200", "--peer", "cuda:1"}, 2, {"--peer", "h200"});
  CheckRefused({"plan", "lenet", "--device", "cuda:1", "--peer", "cuda:1"}, 2,
               {"two different GPUs"});
  CheckRefused({"train", "lenet", "--device", "cuda:0", "--peer", "cpu"}, 2, {"--peer cpu"});
  for (const char* command : {"plan", "train", "profile", "peak-batch"}) {
    CheckRefused({command, "lenet", "--half-accumulation"}, 2, {"--dtype fp16, not fp32"});
    CheckRefused({command, "lenet", "--half-accumulation", "--dtype", "fp16", "--device", "cpu"}, 2,
                 {"--half-accumulation", "device cpu"});
  }
  CheckRefused({"bench", "conv", "--half-accumulation"}, 2, {"--dtype fp16, not fp32"});
  CheckRefused({"bench", "workspace", "lenet", "--half-accumulation"}, 2, {"fp16, not fp32"});
  CheckRefused({"plan", "lenet", "--peer-budget", "60%"}, 2, {"--peer-budget", "60%"});
  CheckRefused({"plan", "resnet20", "--depth", "20"}, 2, {"resnet20", "depth"});
  CheckRefused({"plan", "resnet-cifar", "--depth", "21"}, 2, {"depth", "21"});
  CheckRefused({"plan", "resnet", "--blocks", "3,4,6"}, 2, {"--blocks"});
  CheckRefused({"train", "lenet", "--lr", "fast"}, 2, {"--lr", "'fast'"});
  CheckRefused({"train", "lenet", "--steps", "5", "--epochs", "1"}, 2, {"--steps", "--epochs"});
  CheckRefused({"train", "lenet", "--save-every", "5"}, 2, {"--save"});
}

TEST_CASE("training with one value per channel of a batch norm is refused, naming the layer") {
  const std::vector<std::string> net = {"resnet18", "--image",  "32", "--batch",
                                        "1",        "--device", "cpu"};
  for (const char* command : {"plan", "train"})
    CheckRefused(Joined({command}, net), 1, {"'layer4.0.bn1'", "more than 1 value per channel"});
}

TEST_CASE("a budget that is not a size is refused") {
  for (const char* budget : {"12 apples", "-1GiB", "0", "GiB", "1e999", "%", "-5%", "0%", "nan%"}) {
    CheckRefused({"plan", "lenet", "--budget", budget}, 2, {"--budget", budget});
  }
}

TEST_CASE("a number with other characters around it is refused") {
  for (const char* batch : {" 1", "1 ", "+1", "1.0", "1e3", "0x10", "1,000", "\t1", ""})
    CheckRefused({"plan", "lenet", "--batch", batch}, 2, {"--batch"});
  for (const char* rate :
       {"0x1p3", " 1", "1 ", "+1", "inf", "nan", "1e999", "1f", "1..0", "--1", ""})
    CheckRefused({"train", "lenet", std::string("--lr=") + rate}, 2, {"--lr"});
  for (const char* budget : {"60 %", " 60%", "+60%", "0x3cp0%", "inf%", "512M", "512 MiBs"})
    CheckRefused({"plan", "lenet", "--budget", budget}, 2, {"--budget", budget});
  CheckRefused({"plan", "lenet", "--host-budget", "2G"}, 2, {"2GiB or 2GB?"});
  CheckRefused({"plan", "resnet", "--blocks", "3, 4,6,3"}, 2, {"--blocks"});
  CheckRefused({"plan", "alexnet", "--dropout", " 0.5"}, 2, {"--dropout"});
  for (const char* smoothing : {"1", "-0.1", "nan"})
    CheckRefused({"plan", "lenet", std::string("--label-smoothing=") + smoothing}, 2,
                 {"--label-smoothing"});
  CheckRefused({"plan", "lenet", "--device", "cuda: 0"}, 2, {"cuda: 0"});
}

TEST_CASE("a budget of one byte is refused with the smallest feasible one") {
  CheckRefused({"plan", "lenet", "--budget", "1"}, 1, {"1 bytes", "smallest feasible budget"});
  CheckRefused({"train", "lenet", "--device", "cpu", "--budget", "1"}, 1,
               {"1 bytes", "smallest feasible budget"});
}

TEST_CASE("the error for a missing GPU names it") {
  CheckRefused({"train", "lenet", "--device", "cuda:77"}, 1, {"cuda:77"});
  CheckRefused({"plan", "lenet", "--device", "cuda:77"}, 1, {"cuda:77"});
}

TEST_CASE("the error for a step without a kernel in the type and layout names the step") {
  if (!KnowsEnginesOfH200()) return SkipCase("there is no cuDNN here");
  // The bias of a channel and the windows of a pooling are those of neap's own kernels.
  const std::pair<std::string, std::string> steps[] = {{"nchw", "conv1 forward"},
                                                       {"nhwc", "pool1 forward"}};
  for (const auto& [layout, step] : steps) {
    CheckRefused({"plan", "lenet", "--batch", "1", "--image", "60000", "--dtype", "fp16",
                  "--layout", layout, "--device", "h200"},
                 1, {step, "elements", "fp16 " + layout});
  }
}

TEST_CASE("the error for data that cannot be read names it") {
  CheckRefused({"train", "lenet", "--device", "cpu", "--data", "idx:/no/such/place"}, 1,
               {"/no/such/place"});
  CheckRefused({"train", "lenet", "--device", "cpu", "--data", "tfrecord:x"}, 1, {"tfrecord:x"});
  CheckRefused({"train", "lenet", "--device", "cpu", "--batch-file", "/no/such/batch"}, 1,
               {"/no/such/batch"});
  CheckRefused({"train", "lenet", "--device", "cpu", "--classes", "5", "--data", "idx:" + Digits()},
               1, {"10 classes", "--classes 10"});
}

TEST_CASE("a truncated file of images is refused with its name and the byte where it ends") {
  const ScratchDirectory directory;
  for (const auto& file : std::filesystem::directory_iterator(Digits())) {
    const std::string name = file.path().filename().string();
    std::string bytes = ReadText(file.path().string());
    if (name == "train-images-idx3-ubyte") bytes.resize(50'000);
    WriteText(directory.File(name), bytes);
  }
  CheckRefused({"train", "lenet", "--device", "cpu", "--data", "idx:" + directory.path()}, 1,
               {"train-images-idx3-ubyte", "50000"});
}

TEST_CASE("a batch file of another size is refused") {
  const ScratchDirectory directory;
  const std::string file = directory.File("batch");
  WriteText(file, std::string(1000, '\0'));
  CheckRefused({"train", "lenet", "--device", "cpu", "--batch-file", file}, 1, {file, "byte 1000"});
}

TEST_CASE("a FIFO or a device as an input is refused without waiting for it") {
  const ScratchDirectory directory;
  const std::vector<std::string> train = {"train", "lenet", "--device", "cpu"};
  for (const char* const name :
       {"fifo", "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "data_batch_1.bin"}) {
    REQUIRE(mkfifo(directory.File(name).c_str(), 0600) == 0);
  }
  const std::string fifo = directory.File("fifo");
  for (const std::string& path : {fifo, std::string("/dev/zero")}) {
    for (const char* const flag : {"--weights-in", "--resume", "--batch-file", "--database"})
      CheckRefused(Joined(train, {flag, path}), 1, {path, "not a regular file"});
    CheckRefused({"profile", "--merge", path, "--database", directory.File("p.db")}, 1,
                 {path, "not a regular file"});
    CheckRefused({"plan", "lenet", "--device", "cpu", "--database", path}, 1,
                 {path, "not a regular file"});
  }
  CheckRefused(Joined(train, {"--data", "idx:" + directory.path()}), 1,
               {"train-images-idx3-ubyte", "a FIFO, not a regular file"});
  CheckRefused({"train", "resnet20", "--device", "cpu", "--data", "cifar10:" + directory.path()}, 1,
               {"data_batch_1.bin", "a FIFO, not a regular file"});
}

TEST_CASE("one changed byte of a checkpoint's tensors is found before training") {
  const ScratchDirectory directory;
  const std::string checkpoint = directory.File("c.safetensors");
  const std::vector<std::string> train = {"train", "lenet", "--device", "cpu", "--steps"};
  REQUIRE(RunNeap(Joined(train, {"1", "--save", checkpoint})).exit_code == 0);
  std::string bytes = ReadText(checkpoint);
  char& changed = bytes[bytes.size() / 2];
  changed = static_cast<char>(changed ^ 0x10);
  WriteText(checkpoint, bytes);
  CheckRefused(Joined(train, {"2", "--resume", checkpoint}), 1,
               {checkpoint, "do not match their checksum"});
}

TEST_CASE("corrupt, foreign and missing weights are refused and nothing is trained") {
  const ScratchDirectory directory;
  const std::string weights = directory.File("w.safetensors");
  const auto load = [&](const char* net) {
    return std::vector<std::string>{"train",   net, "--device",     "cpu",
                                    "--steps", "1", "--weights-in", weights};
  };
  CheckRefused(load("lenet"), 1, {weights});
  REQUIRE(RunNeap({"train", "lenet", "--device", "cpu", "--steps", "1", "--weights-out", weights})
              .exit_code == 0);
  CHECK(RunNeap(load("lenet")).exit_code == 0);
  CheckRefused(load("resnet20"), 1, {weights, "tensor"});
  CheckRefused({"train", "lenet", "--device", "cpu", "--steps", "2", "--resume", weights}, 1,
               {weights, "--weights-in"});
  const std::string whole = ReadText(weights);
  WriteText(weights, whole.substr(0, whole.size() / 2));
  CheckRefused(load("lenet"), 1, {weights, "byte"});
  WriteText(weights, "not a safetensors file at all, but long enough");
  CheckRefused(load("lenet"), 1, {weights, "byte"});
}

TEST_CASE("a diverging loss ends training at its step and keeps the last checkpoint") {
  const ScratchDirectory directory;
  const std::string checkpoint = directory.File("c.safetensors");
  const std::vector<std::string> good = {"train", "lenet", "--device", "cpu", "--save", checkpoint};
  std::vector<std::string> args = good;
  args.insert(args.end(), {"--steps", "2"});
  REQUIRE(RunNeap(args).exit_code == 0);
  const std::string before = ReadText(checkpoint);
  args = good;
  args.insert(args.end(), {"--resume", checkpoint, "--lr", "1e30", "--steps", "40"});
  CheckRefused(args, 1, {"loss is", "at step"});
  CHECK(ReadText(checkpoint) == before);
}

TEST_CASE("a plan file that cannot be written is reported") {
  const ScratchDirectory directory;
  CheckRefused({"plan", "lenet", "--device", "cpu", "--plan-out", directory.File("no/such/x")}, 1,
               {directory.File("no/such/x")});
}

}  // namespace
}  // namespace neap::testing
