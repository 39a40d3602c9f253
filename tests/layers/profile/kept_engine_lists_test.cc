// Lists of engines in a file that processes share.
#include "neap/layers/profile/kept_engine_lists.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "neap/layers/profile/sqlite.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

SqliteConnection Opened(const std::string& path) {
  return SqliteConnection::Open(path, SqliteAccess::kReadWrite).value();
}

TEST_CASE("a list is found again, by its library and its problem") {
  const ScratchDirectory directory;
  const std::string path = directory.File("new/folder/engines.db");
  KeptEngineLists lists(path);
  CHECK(!std::filesystem::exists(path));
  CHECK(lists.Find("a", "conv") == std::nullopt);
  lists.Keep("a", "conv", "eng0 0 -\n");
  lists.Keep("b", "conv", "");
  lists.Keep("a", "other", "x");
  lists.Keep("a", "other", "y");
  KeptEngineLists again(path);
  for (KeptEngineLists* const kept : {&lists, &again}) {
    CHECK(kept->Find("a", "conv") == "eng0 0 -\n");
    CHECK(kept->Find("b", "conv") == "");
    CHECK(kept->Find("a", "other") == "y");
    CHECK(kept->Find("b", "other") == std::nullopt);
    CHECK(kept->Find("c", "conv") == std::nullopt);
  }
}

TEST_CASE("processes keep lists at the same time, and find each other's") {
  const ScratchDirectory directory;
  const std::string path = directory.File("engines.db");
  constexpr int kProcesses = 3, kLists = 40;
  std::vector<pid_t> processes;
  for (int process = 0; process < kProcesses; ++process) {
    processes.push_back(fork());
    REQUIRE(processes.back() >= 0);
    if (processes.back() != 0) continue;
    KeptEngineLists lists(path);
    for (int i = 0; i < kLists; ++i) {
      const std::string number = std::to_string(i);
      lists.Keep("library", number, "list " + number);
      lists.Keep("of " + std::to_string(process), number, number);
    }
    _exit(0);
  }
  for (const pid_t process : processes) {
    int status = -1;
    REQUIRE(waitpid(process, &status, 0) == process);
    CHECK(status == 0);
  }
  KeptEngineLists lists(path);
  for (int i = 0; i < kLists; ++i) {
    const std::string number = std::to_string(i);
    CHECK(lists.Find("library", number) == "list " + number);
    for (int process = 0; process < kProcesses; ++process)
      CHECK(lists.Find("of " + std::to_string(process), number) == number);
  }
}

TEST_CASE("threads share one object") {
  const ScratchDirectory directory;
  KeptEngineLists lists(directory.File("engines.db"));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 20; ++i) lists.Keep(std::to_string(thread), std::to_string(i), "list");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int thread = 0; thread < 4; ++thread) {
    for (int i = 0; i < 20; ++i)
      CHECK(lists.Find(std::to_string(thread), std::to_string(i)) == "list");
  }
}

// Keeps lists in the file until it is so large that there are pages which opening does not read.
void Fill(const std::string& path) {
  KeptEngineLists lists(path);
  for (int i = 0; i < 50; ++i) lists.Keep("a", std::to_string(i), std::string(4000, 'e'));
}

TEST_CASE("a damaged file, and one of another version, is begun anew") {
  const ScratchDirectory directory;
  const std::string path = directory.File("engines.db");
  WriteText(path, std::string(5000, 't'));
  KeptEngineLists(path).Keep("a", "conv", "list");
  CHECK(KeptEngineLists(path).Find("a", "conv") == "list");

  REQUIRE(Opened(path).RunScript("PRAGMA user_version = 77").ok());
  CHECK(KeptEngineLists(path).Find("a", "conv") == std::nullopt);
  KeptEngineLists(path).Keep("a", "conv", "list");
  CHECK(KeptEngineLists(path).Find("a", "conv") == "list");

  // Damage that shows only when the list is looked for.
  Fill(path);
  std::string bytes = ReadText(path);
  for (size_t page = 2; page * 4096 < bytes.size(); ++page)
    bytes.replace(page * 4096, 64, std::string(64, '\xff'));
  WriteText(path, bytes);
  CHECK(KeptEngineLists(path).Find("a", "7") == std::nullopt);
  KeptEngineLists(path).Keep("a", "7", "list");
  CHECK(KeptEngineLists(path).Find("a", "7") == "list");
}

TEST_CASE("a list whose bytes have changed is not found, until it is kept again") {
  const ScratchDirectory directory;
  const std::string path = directory.File("engines.db");
  KeptEngineLists(path).Keep("a", "conv", "eng0 4096 t\n");
  REQUIRE(Opened(path).RunScript("UPDATE lists SET list = 'eng0 4097 t' || char(10)").ok());
  CHECK(KeptEngineLists(path).Find("a", "conv") == std::nullopt);
  KeptEngineLists(path).Keep("a", "conv", "eng0 4096 t\n");
  CHECK(KeptEngineLists(path).Find("a", "conv") == "eng0 4096 t\n");
}

TEST_CASE("another program's file stays as it is") {
  const ScratchDirectory directory;
  for (const char* const id : {"0", "7"}) {
    CAPTURE(id);
    const std::string path = directory.File(std::string(id) + ".db");
    REQUIRE(Opened(path)
                .RunScript("PRAGMA application_id = " + std::string(id) +
                           "; CREATE TABLE lists (number)")
                .ok());
    const std::string bytes = ReadText(path);
    KeptEngineLists lists(path);
    lists.Keep("a", "conv", "list");
    CHECK(lists.Find("a", "conv") == std::nullopt);
    CHECK(ReadText(path) == bytes);
  }
}

TEST_CASE("a file that another process keeps locked is waited for once, and not for long") {
  const ScratchDirectory directory;
  const std::string path = directory.File("engines.db");
  KeptEngineLists lists(path);
  lists.Keep("a", "conv", "list");
  SqliteConnection other = Opened(path);
  REQUIRE(other.RunScript("BEGIN EXCLUSIVE").ok());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    CHECK(lists.Find("a", "conv") == std::nullopt);
    lists.Keep("a", "other", "list");
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  REQUIRE(other.RunScript("COMMIT").ok());
  CHECK(KeptEngineLists(path).Find("a", "conv") == "list");
}

TEST_CASE("the file may be deleted while it is open") {
  const ScratchDirectory directory;
  const std::string path = directory.File("engines.db");
  KeptEngineLists lists(path);
  lists.Keep("a", "conv", "list");
  std::filesystem::remove(path);
  lists.Keep("a", "other", "list");
  CHECK(lists.Find("a", "other") == std::nullopt);
  KeptEngineLists anew(path);
  CHECK(anew.Find("a", "conv") == std::nullopt);
  anew.Keep("a", "conv", "new list");
  CHECK(KeptEngineLists(path).Find("a", "conv") == "new list");
}

TEST_CASE("beyond its bytes, a file loses the older half of its lists") {
  const ScratchDirectory directory;
  const std::string path = directory.File("engines.db");
  constexpr int kLists = 100;
  {
    KeptEngineLists lists(path);
    for (int i = 0; i < kLists; ++i)
      lists.Keep("library", std::to_string(i), std::string(10'000, 'e'));
  }
  const auto found = [&](int64_t max_bytes) {
    std::vector<int> numbers;
    KeptEngineLists lists(path, max_bytes);
    for (int i = 0; i < kLists; ++i) {
      if (lists.Find("library", std::to_string(i)).has_value()) numbers.push_back(i);
    }
    return numbers;
  };
  CHECK(found(2'000'000).size() == kLists);
  const std::vector<int> left = found(900'000);
  CHECK(left.size() == kLists / 2);
  CHECK(left.front() == kLists / 2);
  CHECK(found(900'000) == left);
}

TEST_CASE("where no file can be, no lists are kept") {
  const ScratchDirectory directory;
  WriteText(directory.File("file"), "");
  for (const std::string& path : {directory.File("file/engines.db"), directory.path()}) {
    KeptEngineLists lists(path);
    lists.Keep("a", "conv", "list");
    CHECK(lists.Find("a", "conv") == std::nullopt);
  }
}

}  // namespace
}  // namespace neap::testing
