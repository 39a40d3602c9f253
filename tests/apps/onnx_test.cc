// ONNX files on the command line.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/graph/graph.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/apps/command.h"
#include "tests/scratch_directory.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

// A trained LeNet, and the ONNX file that the command makes of it.
struct Exported {
  ScratchDirectory directory;
  std::string weights = directory.File("w.safetensors");
  std::string file = directory.File("lenet.onnx");

  Exported() {
    REQUIRE(RunNeap({"train", "lenet", "--device", "cpu", "--batch", "8", "--steps", "2",
                     "--weights-out", weights})
                .exit_code == 0);
    const Outcome outcome = RunNeap({"export", "lenet", "--weights", weights, "--onnx", file});
    REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  }
};

// The bytes behind the header, whose metadata name the network.
std::string TensorsOf(const std::string& path) {
  const std::string text = ReadText(path);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, text.data(), sizeof(header_bytes));
  return text.substr(sizeof(header_bytes) + header_bytes);
}

TEST_CASE("a network with layers of several outputs is planned, which the paper does not have") {
  if (!nets::BuiltWithOnnx()) return SkipCase("this build has no ONNX");
  Graph net({.name = "parts", .batch = 2});
  const std::string x = net.Add("fc", FullyConnected{.out_features = 4}, {net.Input({3, 1, 1})});
  net.Add("parts", ChannelSplit{.channels = {1, 3}}, {x});
  net.Loss(net.Add("joined", Concat{}, {"parts:1", "parts"}), SoftmaxCrossEntropy{});
  const ScratchDirectory directory;
  const std::string file = directory.File("parts.onnx");
  const NamedValues weights = {{"fc.weight", std::vector<float>(12)},
                               {"fc.bias", std::vector<float>(4)}};
  const absl::Status written = nets::WriteOnnx(file, net, weights);
  REQUIRE_MESSAGE(written.ok(), written.ToString());
  const std::vector<std::string> plan = {"plan", file, "--batch", "2", "--device", "cpu"};
  const Outcome exact = RunNeap(plan), paper = RunNeap(Joined(plan, {"--accounting", "paper"}));
  CHECK_MESSAGE(exact.exit_code == 0, exact.err);
  CHECK(exact.out.find("paper's accounting") == std::string::npos);
  CHECK(paper.exit_code == 1);
  CHECK(paper.err.find("the paper's accounting knows no layers with several outputs") !=
        std::string::npos);
}

TEST_CASE("an exported network is planned, trained and evaluated like the one that it was") {
  if (!nets::BuiltWithOnnx()) return SkipCase("this build has no ONNX");
  const Exported exported;
  const auto lines = [&](std::vector<std::string> start, const std::string& net,
                         std::vector<std::string> rest) {
    start.push_back(net);
    start.insert(start.end(), rest.begin(), rest.end());
    const Outcome outcome = RunNeap(start);
    CHECK_MESSAGE(outcome.exit_code == 0, outcome.err);
    return outcome.out;
  };
  const std::vector<std::string> planned = {"--batch", "16", "--device", "cpu", "--per-step"};
  CHECK(lines({"plan"}, exported.file, planned).substr(0, 300) ==
        lines({"plan"}, "lenet", planned).substr(0, 300));
  const std::vector<std::string> predicted = {"--device", "cpu", "--images", "4"};
  std::vector<std::string> with_weights = predicted;
  with_weights.insert(with_weights.end(), {"--weights", exported.weights});
  CHECK(lines({"predict"}, exported.file, predicted) == lines({"predict"}, "lenet", with_weights));
  CHECK(lines({"predict"}, exported.file, with_weights) ==
        lines({"predict"}, "lenet", with_weights));
  const std::string again = exported.directory.File("again.safetensors");
  lines({"train"}, exported.file,
        {"--device", "cpu", "--batch", "8", "--steps", "1", "--lr", "0", "--weights-out", again});
  CHECK(TensorsOf(again) == TensorsOf(exported.weights));
}

TEST_CASE("what does not fit an ONNX file is refused") {
  if (!nets::BuiltWithOnnx()) return SkipCase("this build has no ONNX");
  const Exported exported;
  const auto refused = [](const std::vector<std::string>& args, int code, const std::string& text) {
    const Outcome outcome = RunNeap(args);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == code);
    CHECK(outcome.err.find(text) != std::string::npos);
  };
  refused({"plan", exported.file, "--classes", "3"}, 2, "from an ONNX file takes no --classes");
  refused({"plan", exported.directory.File("none.onnx")}, 1, "none.onnx");
  refused({"peak-depth", exported.file}, 2, "has a fixed depth");
  refused({"peak-depth", exported.directory.File("LENET.ONNX")}, 2, "has a fixed depth");
  refused({"plan", exported.directory.File("NONE.ONNX")}, 1, "NONE.ONNX");
  refused({"export", "lenet", "--onnx", exported.file}, 2,
          "--weights FILE is missing: lenet has no weights until they are trained");
  refused({"export", "lenet", "--weights", exported.weights}, 2, "--onnx FILE is missing");
  refused({"export", exported.file, "--onnx", exported.file}, 2, "NET");
  refused({"train", exported.file, "--save", exported.file}, 2, "NET");
}

}  // namespace
}  // namespace neap::testing
