// Concurrent writers of one profile database, and writers that are killed.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/layers/profile/profile_records.h"
#include "tests/scratch_directory.h"

namespace neap {
namespace {

using namespace testing;

std::string EngineName(int writer, int i) { return absl::StrCat("writer ", writer, " row ", i); }

TEST_CASE("processes and threads that write concurrently lose no row") {
  constexpr int kProcesses = 3;
  constexpr int kThreads = 2;
  constexpr int kRows = 100;
  const ScratchDirectory directory;
  const std::string path = directory.File("new folder/p.db");
  // Each writer also opens the database, all at once, before it exists.
  const auto write = [&](int writer) {
    auto database = ProfileDatabase::Open(path, {"H200", "cudnn 9"});
    if (!database.ok() || !database->notices().empty()) return 1;
    for (int i = 0; i < kRows; ++i) {
      if (!database->Record("conv", Measured(1 + i % 4, EngineName(writer, i))).ok()) return 2;
    }
    return 0;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(Fork([&] { return write(i); }));
  }
  std::vector<int> results(kThreads, -1);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { results[i] = write(kProcesses + static_cast<int>(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int result : results) CHECK(result == 0);
  for (const pid_t child : children) CHECK(Await(child) == 0);

  ProfileDatabase database = OpenDatabase(path);
  CHECK(database.Counts()->rows == (kProcesses + kThreads) * kRows);
  for (int writer = 0; writer < kProcesses + kThreads; ++writer) {
    for (int i = 0; i < kRows; ++i) {
      CHECK(*database.Contains("conv", 1 + i % 4, EngineName(writer, i)));
    }
  }
}

TEST_CASE("a writer killed at any moment loses at most its current record, and harms nothing") {
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  std::mt19937 random(7);
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    int told[2] = {};
    REQUIRE(pipe(told) == 0);
    const pid_t child = Fork([&] {
      auto database = ProfileDatabase::Open(path, {"H200", "cudnn 9"});
      if (!database.ok()) return 1;
      for (int i = 0;; ++i) {
        if (!database->Record("conv", Measured(1, EngineName(round, i))).ok()) return 2;
        if (write(told[1], &i, sizeof i) != sizeof i) return 3;
      }
    });
    close(told[1]);
    int last = -1;
    const int kill_after = static_cast<int>(random() % 60);
    while (last < kill_after && read(told[0], &last, sizeof last) == sizeof last) {
    }
    usleep(static_cast<useconds_t>(random() % 300));
    REQUIRE(kill(child, SIGKILL) == 0);
    CHECK(Await(child) == -SIGKILL);
    while (read(told[0], &last, sizeof last) == sizeof last) {
    }
    close(told[0]);

    ProfileDatabase database = OpenDatabase(path);
    CHECK(database.notices().empty());
    for (int i = 0; i <= last; ++i) CHECK(*database.Contains("conv", 1, EngineName(round, i)));
    CHECK_FALSE(*database.Contains("conv", 1, EngineName(round, last + 2)));
  }
}

TEST_CASE("a process killed while it creates the database leaves a usable file") {
  const ScratchDirectory directory;
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    const std::string path = directory.File(absl::StrCat("folder ", round, "/p.db"));
    const pid_t child = Fork([&]() -> int {
      for (;;) ProfileDatabase::Open(path, {"H200", "cudnn 9"}).status().IgnoreError();
    });
    usleep(static_cast<useconds_t>(random() % 4000));
    REQUIRE(kill(child, SIGKILL) == 0);
    CHECK(Await(child) == -SIGKILL);
    ProfileDatabase database = OpenDatabase(path);
    CHECK(database.notices().empty());
    CHECK(database.Record("conv", Measured(1, "a")).ok());
  }
}

TEST_CASE("processes that find a corrupt file concurrently set it aside once, and lose no row") {
  constexpr int kProcesses = 4;
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  for (int round = 1; round <= 5; ++round) {
    CAPTURE(round);
    std::filesystem::remove(path + "-wal");
    WriteText(path, std::string(8192, 'x'));
    std::vector<pid_t> children;
    for (int i = 0; i < kProcesses; ++i) {
      children.push_back(Fork([&] {
        auto database = ProfileDatabase::Open(path, {"H200", "cudnn 9"});
        absl::Status status = database.status();
        if (status.ok()) status = database->Record("conv", Measured(1, EngineName(i, 0)));
        if (!status.ok()) std::cerr << status << "\n";
        return status.ok() ? 0 : 1;
      }));
    }
    for (const pid_t child : children) CHECK(Await(child) == 0);
    CHECK(OpenDatabase(path).Counts()->rows == kProcesses);
    CHECK(std::filesystem::exists(absl::StrCat(path, ".set-aside-", round)));
    CHECK_FALSE(std::filesystem::exists(absl::StrCat(path, ".set-aside-", round + 1)));
  }
}

}  // namespace
}  // namespace neap
