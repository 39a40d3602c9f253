#include "apps/train/train_planning.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "neap/layers/activation.h"
#include "neap/layers/collectives/local_ranks.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/planner.h"
#include "tests/forwarding_device.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using apps::TrainFlags;
using apps::TrainPlanning;
using apps::TrainSetup;

constexpr float kAll = 600;  // seconds: long enough to measure everything

// The batch of one rank. Without fusion, because the CPU runs the steps of what is taken for a GPU.
Graph TwoConvolutions() {
  Graph net({.name = "two", .batch = 4, .fusion = false});
  std::string x = net.Input({3, 16, 16});
  x = net.Add("conv1", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("relu1", Relu{}, {x});
  x = net.Add("conv2", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return net;
}

// One rank of a training on a CPU that is taken for a GPU.
struct Rank {
  std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  DescribedAs device = DescribedAs(*cpu, Description(*cpu));
  const Graph graph = TwoConvolutions();
  TrainFlags flags;
  RankShare share;
  TrainSetup setup;
  std::shared_ptr<const Planner> before, after;
  absl::Status status;

  explicit Rank(const std::string& database) {
    flags.net.name = "two";
    flags.planning.kernels.database = database;
    flags.measure_seconds = kAll;
  }
  static DeviceDescription Description(Device& cpu) {
    DeviceDescription description = cpu.description();
    description.kind = "cuda";
    description.name = "GPU of a test";
    return description;
  }

  TrainPlanning Plans() { return TrainPlanning(flags, graph, device, share); }
  void MakePlanner() {
    absl::StatusOr<std::shared_ptr<const Planner>> made = Plans().MakePlanner(setup);
    status = made.status();
    if (made.ok()) before = *std::move(made);
  }
  void Measure(TextExchange* ranks) {
    absl::StatusOr<std::shared_ptr<const Planner>> made = Plans().Measured(before, ranks, setup);
    status = made.status();
    if (made.ok()) after = *std::move(made);
  }
  // Of a plan by `planner`: how many runs have a measured time, and how many there are.
  std::pair<int64_t, int64_t> MeasuredRuns(const Planner& planner) {
    const Program program = Plans().ProgramFor(nullptr).value();
    const PlanResult planned =
        planner.Plan(program, {}, device.description(), device.backend()).value();
    return {planned.stats.measured_runs, planned.stats.runs};
  }
  ProfileCounts Counts() {
    return ProfileDatabase::OpenToRead(flags.planning.kernels.database,
                                       {device.description().name, device.backend().Versions()})
        ->Counts()
        .value();
  }
};

TEST_CASE("a training measures the kernels that its plan depends on") {
  const ScratchDirectory directory;
  Rank rank(directory.File("times.db"));
  rank.MakePlanner();
  REQUIRE_MESSAGE(rank.status.ok(), rank.status.ToString());
  CHECK(rank.MeasuredRuns(*rank.before).first == 0);
  rank.Measure(nullptr);
  REQUIRE_MESSAGE(rank.status.ok(), rank.status.ToString());
  REQUIRE(rank.setup.measured.has_value());
  CHECK(rank.setup.measured->measured == rank.Counts().measured);
  const auto [measured, runs] = rank.MeasuredRuns(*rank.after);
  CHECK(measured == runs);

  rank.flags.measure_seconds = 0;
  rank.Measure(nullptr);
  CHECK(rank.after == rank.before);
}

TEST_CASE("a notice says that ranks divide the images of which a loss takes one Dice") {
  for (const bool batch : {false, true}) {
    CAPTURE(batch);
    Graph net({.name = "segments", .batch = 4});
    const std::string logits =
        net.Add("logits", Convolution{.out_channels = 2}, {net.Input({1, 8, 8})});
    net.PixelLoss(logits, DiceLoss{.batch = batch}, {8, 8});
    const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
    TrainFlags flags;
    for (const int ranks : {1, 2}) {
      CAPTURE(ranks);
      const RankShare share = {.ranks = ranks, .all_images = 4 * ranks};
      TrainSetup setup;
      const auto planner = TrainPlanning(flags, net, *cpu, share).MakePlanner(setup);
      REQUIRE_MESSAGE(planner.ok(), planner.status().ToString());
      REQUIRE((setup.notices.size() == 1) == (batch && ranks == 2));
      if (setup.notices.empty()) continue;
      CHECK(
          setup.notices[0] ==
          "the Dice of 'loss' is that of each rank's images, not of the batch of 8 as on one rank");
    }
  }
}

// The two ranks of one training; `run` is called for each on a thread of its own.
template <typename Run>
void RunBoth(Rank& first, Rank& second, Run run) {
  first.share = {.rank = 0, .ranks = 2, .first_image = 0, .all_images = 8};
  second.share = {.rank = 1, .ranks = 2, .first_image = 4, .all_images = 8};
  LocalRanks group(2);
  std::thread other([&] { run(second, group.Join(1, *second.cpu).get()); });
  run(first, group.Join(0, *first.cpu).get());
  other.join();
}

TEST_CASE("the ranks of a training measure different kernels and share the times") {
  const ScratchDirectory directory;
  Rank first(directory.File("0.db")), second(directory.File("1.db"));
  RunBoth(first, second, [](Rank& rank, TextExchange* ranks) {
    rank.MakePlanner();
    if (rank.status.ok()) rank.Measure(ranks);
  });
  for (Rank* const rank : {&first, &second}) {
    REQUIRE_MESSAGE(rank->status.ok(), rank->status.ToString());
    CHECK(rank->setup.measured->measured > 0);
    CHECK(rank->Counts().measured ==
          first.setup.measured->measured + second.setup.measured->measured);
    CHECK(rank->after != rank->before);
  }
  CHECK(first.setup.measured->from_others == second.setup.measured->measured);
  CHECK(second.setup.measured->from_others == first.setup.measured->measured);
}

TEST_CASE("a rank without a database does not leave the others waiting") {
  const ScratchDirectory directory;
  WriteText(directory.File("file"), "no folder");
  Rank first(directory.File("0.db")), second(directory.File("file/1.db"));
  RunBoth(first, second, [](Rank& rank, TextExchange* ranks) {
    rank.before = PlannerFor({});
    rank.Measure(ranks);
  });
  for (Rank* const rank : {&first, &second}) {
    CHECK(rank->status.ok());
    CHECK(rank->after == rank->before);
    CHECK(!rank->setup.measured.has_value());
    REQUIRE(rank->setup.notices.size() == 1);
  }
  const std::string unusable = "the database cannot be used: ";
  CHECK(first.setup.notices[0].find("kernels are not measured: rank 1: " + unusable) == 0);
  CHECK(second.setup.notices[0].find("kernels are not measured: " + unusable) == 0);
}

}  // namespace
}  // namespace neap::testing
