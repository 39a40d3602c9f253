#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/base/units.h"
#include "tests/apps/command.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;
using Args = std::vector<std::string>;

TEST_CASE("peak-batch chooses sub-batches where they allow larger batches") {
  const Args search = {"peak-batch", "lenet", "--device", "h200", "--budget", "8MiB"};
  const auto found = [&](const Args& flags) -> Json {
    return RunForJson(Joined(search, flags)).at(0).at("results").at(0);
  };
  const Json whole = found({"--sub-batches", "1"}), chosen = found({});
  const int64_t count = chosen.at("sub_batches"), batch = chosen.at("batch");
  CHECK(whole.at("sub_batches") == 1);
  CHECK(count > 1);
  CHECK(batch >= whole.at("batch").get<int64_t>() * 9 / 8);
  // It fits, one more image in as many parts does not, and with twice as many parts not even an
  // eighth more.
  const auto planned = [&](int64_t images, int64_t parts) {
    return RunNeap({"plan", "lenet", "--device", "h200", "--budget", "8MiB", "--batch",
                    std::to_string(images), "--sub-batches", std::to_string(parts)})
        .exit_code;
  };
  CHECK(planned(batch, count) == 0);
  CHECK(planned(batch + 1, count) == 1);
  CHECK(planned(batch + batch / 8, 2 * count) == 1);

  // Two parts of AlexNet allow fewer images here than the whole batch does, many parts more.
  const Args alexnet = {"peak-batch", "alexnet", "--device", "h200",
                        "--database", "none",    "--budget", "800MiB"};
  const auto images = [&](const Args& flags) -> int64_t {
    return RunForJson(Joined(alexnet, flags)).at(0).at("results").at(0).at("batch");
  };
  CHECK(images({}) > 2 * images({"--sub-batches", "1"}));

  const Json kept = found({"--keep", "80%"});
  CHECK(kept.at("kept").at("percent") >= 80);
  CHECK(kept.at("batch") <= batch);
  // Images are coupled, bits must not depend on the budget, or the policy does not split batches.
  CHECK(found({"--strict"}).at("sub_batches") == 1);
  CHECK(found({"--policy", "superneurons"}).at("sub_batches") == 1);
  const Json coupled = RunForJson({"peak-batch", "resnet-cifar", "--depth", "8", "--device", "h200",
                                   "--budget", "16MiB"})
                           .at(0);
  CHECK(coupled.at("results").at(0).at("sub_batches") == 1);
}

TEST_CASE("peak-batch takes any number of parts, which the batch need not be a multiple of") {
  const auto found = [](const Args& flags) -> Json {
    return RunForJson(
               Joined({"peak-batch", "lenet", "--device", "h200", "--budget", "8MiB"}, flags))
        .at(0)
        .at("results")
        .at(0);
  };
  const int64_t whole = found({"--sub-batches", "1"}).at("batch");
  int64_t before = whole;
  for (const int64_t parts : {3, 5, 7}) {
    CAPTURE(parts);
    const Json result = found({"--sub-batches", std::to_string(parts)});
    const int64_t batch = result.at("batch");
    CHECK(result.at("sub_batches") == parts);
    CHECK(batch > before);
    // The last part may have fewer images than the others.
    const auto exit_code_of = [&](int64_t images) {
      return RunNeap({"plan", "lenet", "--device", "h200", "--budget", "8MiB", "--sub-batches",
                      std::to_string(parts), "--batch", std::to_string(images)})
          .exit_code;
    };
    CHECK(exit_code_of(batch - 1) == 0);
    CHECK(exit_code_of(batch + 1) == 1);
    before = batch;
  }
}

TEST_CASE("peak-batch runs networks with batch norms in parts, if they may have their statistics") {
  const Args search = {"peak-batch", "resnet-cifar", "--depth",  "8",
                       "--device",   "h200",         "--budget", "16MiB"};
  const auto found = [&](const Args& flags) -> Json {
    return RunForJson(Joined(search, flags)).at(0).at("results").at(0);
  };
  const Json whole = found({}), parts = found({"--batch-norm-in-parts"});
  CHECK(parts.at("sub_batches") > 1);
  CHECK(parts.at("batch").get<int64_t>() >= whole.at("batch").get<int64_t>() * 9 / 8);
  CHECK(found({"--batch-norm-in-parts", "--sub-batches", "3"}).at("sub_batches") == 3);
}

}  // namespace
}  // namespace neap::testing
