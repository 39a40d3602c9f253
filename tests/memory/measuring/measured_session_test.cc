#include "neap/memory/measuring/measured_session.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "neap/layers/activation.h"
#include "neap/layers/collectives/local_ranks.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/environment.h"
#include "tests/forwarding_device.h"
#include "tests/scratch_directory.h"
#include "tests/small_net.h"

namespace neap::testing {
namespace {

constexpr int64_t kBatchSize = 8;

Graph TwoConvolutions() {
  Graph net({.name = "two", .batch = kBatchSize});
  std::string x = net.Input({3, 16, 16});
  x = net.Add("conv1", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("relu1", Relu{}, {x});
  x = net.Add("conv2", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return net;
}

Batch Zeros() {
  return {.images = std::vector<float>(kBatchSize * 3 * 16 * 16),
          .labels = std::vector<int32_t>(kBatchSize),
          .size = kBatchSize};
}

// A CPU that is taken for a device whose kernels are worth measuring, as a GPU's are.
struct Accelerator {
  std::unique_ptr<CpuDevice> cpu = OpenCpu();
  DescribedAs device = DescribedAs(*cpu, Description(*cpu));

  static DeviceDescription Description(Device& cpu) {
    DeviceDescription description = cpu.description();
    description.kind = "accelerator";
    description.name = "accelerator of a test";
    return description;
  }
  ProfileDatabase Times(const std::string& path) {
    return ProfileDatabase::OpenToRead(path,
                                       {device.description().name, device.backend().Versions()})
        .value();
  }
};

// Steps that run, without sums over ranks, in the plan of a session.
struct Known {
  int64_t runs = 0, measured = 0;
};
Known KnownOf(const Session& session) {
  return {session.planning().runs, session.planning().measured_runs};
}

// Long enough to measure everything.
constexpr double kAll = 600;

TEST_CASE("a session measures what its plan depends on, and the next one measures nothing") {
  const ScratchDirectory directory;
  Accelerator accelerator;
  MeasuringReport first, second;
  int64_t calls = 0;
  SessionMeasuring measuring = {.seconds = kAll,
                                .database = directory.File("times.db"),
                                .on_progress =
                                    [&](const MeasuringReport& report) {
                                      ++calls;
                                      CHECK(report.measured + report.failed == calls);
                                      return true;
                                    },
                                .report = &first};
  Session session =
      CreateMeasuredSession(TwoConvolutions(), accelerator.device, {}, {}, measuring).value();
  CHECK(first.measured > 0);
  CHECK(first.failed == 0);
  CHECK(calls == first.measured);
  CHECK(accelerator.Times(measuring.database).Counts()->measured == first.measured);
  CHECK(KnownOf(session).measured == KnownOf(session).runs);
  CHECK(session.TrainStep(Zeros()).ok());

  measuring.report = &second;
  const Session again =
      CreateMeasuredSession(TwoConvolutions(), accelerator.device, {}, {}, measuring).value();
  CHECK(second.measured == 0);
  CHECK(KnownOf(again).measured == KnownOf(again).runs);
  CHECK(again.plan().ToJson() == session.plan().ToJson());
}

TEST_CASE("a caller that has seen enough ends the measuring") {
  const ScratchDirectory directory;
  Accelerator accelerator;
  MeasuringReport report;
  const auto once = [](const MeasuringReport& /*report*/) { return false; };
  const Session session = CreateMeasuredSession(TwoConvolutions(), accelerator.device, {}, {},
                                                {.seconds = kAll,
                                                 .database = directory.File("times.db"),
                                                 .on_progress = once,
                                                 .report = &report})
                              .value();
  CHECK(report.measured == 1);
  CHECK(report.left > 0);
  CHECK(KnownOf(session).measured < KnownOf(session).runs);
}

TEST_CASE("without seconds, known times are read, and no file is made") {
  const ScratchDirectory directory;
  const Environment cache("XDG_CACHE_HOME", directory.path().c_str());
  Accelerator accelerator;
  const std::string path = DefaultProfilePath().value();
  std::vector<std::string> notices;
  const auto note = [&](const std::string& notice) { notices.push_back(notice); };
  const Graph net = TwoConvolutions();
  const Session unmeasured =
      CreateMeasuredSession(net, accelerator.device, {}, {}, {.seconds = 0, .on_notice = note})
          .value();
  CHECK(KnownOf(unmeasured).measured == 0);
  CHECK(!std::filesystem::exists(path));
  // The default database is that of the command.
  REQUIRE(CreateMeasuredSession(net, accelerator.device, {}, {}, {.seconds = kAll}).ok());
  CHECK(accelerator.Times(path).Counts()->measured > 0);
  const Session measured =
      CreateMeasuredSession(net, accelerator.device, {}, {}, {.seconds = 0, .on_notice = note})
          .value();
  CHECK(KnownOf(measured).measured == KnownOf(measured).runs);
  CHECK(notices.empty());
  const absl::Status missing =
      CreateMeasuredSession(net, accelerator.device, {}, {},
                            {.seconds = 0, .database = directory.File("missing.db")})
          .status();
  CHECK(absl::IsNotFound(missing));
}

TEST_CASE("the CPU, strict sessions and those with times of their own measure nothing") {
  const ScratchDirectory directory;
  Accelerator accelerator;
  const SessionMeasuring measuring = {.seconds = kAll, .database = directory.File("times.db")};
  const Graph net = TwoConvolutions();
  CHECK(CreateMeasuredSession(net, *accelerator.cpu, {}, {}, measuring).ok());
  CHECK(CreateMeasuredSession(net, accelerator.device, {.strict = true}, {}, measuring).ok());
  CHECK(!std::filesystem::exists(measuring.database));
  SessionMeasuring elsewhere = measuring;
  elsewhere.database = directory.File("own.db");
  REQUIRE(CreateMeasuredSession(net, accelerator.device, {}, {}, elsewhere).ok());
  PlannerOptions own;
  own.kernels.timings =
      std::make_shared<ProfiledTimings>(accelerator.Times(directory.File("own.db")));
  const Session session =
      CreateMeasuredSession(net, accelerator.device, own, {}, measuring).value();
  CHECK(KnownOf(session).measured == KnownOf(session).runs);
  CHECK(!std::filesystem::exists(measuring.database));
}

TEST_CASE("a database that is named must be usable, the default one need not") {
  const ScratchDirectory directory;
  const std::string file = directory.File("file");
  WriteText(file, "no folder");
  const Environment cache("XDG_CACHE_HOME", file.c_str());
  Accelerator accelerator;
  const Graph net = TwoConvolutions();
  std::vector<std::string> notices;
  const auto note = [&](const std::string& notice) { notices.push_back(notice); };
  const Session session =
      CreateMeasuredSession(net, accelerator.device, {}, {}, {.seconds = kAll, .on_notice = note})
          .value();
  CHECK(KnownOf(session).measured == 0);
  REQUIRE(!notices.empty());
  CHECK(notices.front().find("kernels are not measured: ") == 0);
  CHECK(notices.front().find(file) != std::string::npos);
  const absl::Status named =
      CreateMeasuredSession(net, accelerator.device, {}, {},
                            {.seconds = kAll, .database = file + "/times.db", .on_notice = note})
          .status();
  CHECK(named.message().find(file) != std::string::npos);
}

TEST_CASE("a session for inference measures the kernels of inference") {
  const ScratchDirectory directory;
  Accelerator accelerator;
  const SessionMeasuring measuring = {.seconds = kAll, .database = directory.File("times.db")};
  const Session session = CreateMeasuredSession(TwoConvolutions(), accelerator.device, {},
                                                {.inference_only = true}, measuring)
                              .value();
  CHECK(KnownOf(session).measured == KnownOf(session).runs);
  ProfileDatabase times = accelerator.Times(measuring.database);
  CHECK(times.Counts()->measured > 0);
  const Session training = CreateMeasuredSession(TwoConvolutions(), accelerator.device, {}, {},
                                                 {.seconds = 0, .database = measuring.database})
                               .value();
  CHECK(KnownOf(training).measured < KnownOf(training).runs);
}

// What a rank of two has measured, and what it finds in its own database then.
struct Rank {
  Accelerator accelerator;
  std::string database;
  std::vector<std::string> notices;
  MeasuringReport report;
  absl::Status status;
  float loss = 0;
  Known known;
};

void Run(Rank& rank, int index, LocalRanks& group) {
  const std::unique_ptr<Communicator> communicator = group.Join(index, *rank.accelerator.cpu);
  const SessionMeasuring measuring = {
      .seconds = kAll,
      .database = rank.database,
      .on_notice = [&](const std::string& notice) { rank.notices.push_back(notice); },
      .report = &rank.report};
  absl::StatusOr<Session> session =
      CreateMeasuredSession(TwoConvolutions(), rank.accelerator.device, {},
                            {.communicator = communicator.get()}, measuring);
  rank.status = session.status();
  if (!session.ok()) return;
  rank.known = KnownOf(*session);
  const absl::StatusOr<float> loss = session->TrainStep(Zeros());
  rank.status = loss.status();
  rank.loss = loss.value_or(0);
}

void RunBoth(Rank (&ranks)[2]) {
  LocalRanks group(2);
  std::thread other([&] { Run(ranks[1], 1, group); });
  Run(ranks[0], 0, group);
  other.join();
}

TEST_CASE("two ranks measure different kernels, and both have all times") {
  const ScratchDirectory directory;
  Rank ranks[2];
  ranks[0].database = directory.File("0.db");
  ranks[1].database = directory.File("1.db");
  RunBoth(ranks);
  for (Rank& rank : ranks) {
    REQUIRE_MESSAGE(rank.status.ok(), rank.status.ToString());
    CHECK(rank.report.measured > 0);
    CHECK(rank.report.from_others > 0);
  }
  // None was measured twice, so each database has the sum of both.
  const int64_t all = ranks[0].report.measured + ranks[1].report.measured;
  CHECK(ranks[0].report.from_others == ranks[1].report.measured);
  CHECK(ranks[1].report.from_others == ranks[0].report.measured);
  for (Rank& rank : ranks) CHECK(rank.accelerator.Times(rank.database).Counts()->measured == all);
  CHECK(ranks[0].loss == ranks[1].loss);
}

TEST_CASE("if one rank has no database, none measures") {
  const ScratchDirectory directory;
  const Environment cache("XDG_CACHE_HOME", directory.File("file").c_str());
  WriteText(directory.File("file"), "no folder");
  Rank ranks[2];
  SUBCASE("all train without the default one") {
    RunBoth(ranks);
    for (const Rank& rank : ranks) {
      REQUIRE_MESSAGE(rank.status.ok(), rank.status.ToString());
      CHECK(rank.report.measured == 0);
      REQUIRE(!rank.notices.empty());
      CHECK(rank.notices.front().find("kernels are not measured: ") == 0);
    }
    CHECK(ranks[0].loss == ranks[1].loss);
  }
  SUBCASE("all fail without one that is named") {
    ranks[0].database = directory.File("0.db");
    ranks[1].database = directory.File("file/1.db");
    RunBoth(ranks);
    CHECK(ranks[0].status.message().find("rank 1: the database cannot be used: ") == 0);
    CHECK(ranks[1].status.message().find(directory.File("file")) != std::string::npos);
  }
}

}  // namespace
}  // namespace neap::testing
