// Lists of engines in a file that processes share.
#include "neap/layers/profile/kept_engine_lists.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "neap/layers/profile/sqlite.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

TEST_CASE("a list is found again, by its library and its problem, in another process, too") {
  const ScratchDirectory directory;
  const std::string path = directory.File("new/folder/engines.db");
  const auto lists = KeptEngineLists::Open(path);
  REQUIRE(lists != nullptr);
  CHECK(lists->Find("a", "conv") == std::nullopt);
  lists->Keep("a", "conv", "eng0 0 -\n");
  lists->Keep("b", "conv", "");
  lists->Keep("a", "other", "x");
  lists->Keep("a", "other", "y");
  const auto again = KeptEngineLists::Open(path);
  REQUIRE(again != nullptr);
  for (const auto& kept : {lists, again}) {
    CHECK(kept->Find("a", "conv") == "eng0 0 -\n");
    CHECK(kept->Find("b", "conv") == "");
    CHECK(kept->Find("a", "other") == "y");
    CHECK(kept->Find("b", "other") == std::nullopt);
    CHECK(kept->Find("c", "conv") == std::nullopt);
  }
}

TEST_CASE("threads and connections may keep and find at the same time") {
  const ScratchDirectory directory;
  const std::string path = directory.File("engines.db");
  const auto shared = KeptEngineLists::Open(path);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      const auto own = thread < 2 ? shared : KeptEngineLists::Open(path);
      for (int i = 0; i < 50; ++i) {
        const std::string problem = std::to_string(i);
        own->Keep("library", problem, "list " + problem);
        own->Keep("of " + std::to_string(thread), problem, problem);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 50; ++i) {
    const std::string problem = std::to_string(i);
    CHECK(shared->Find("library", problem) == "list " + problem);
    for (int thread = 0; thread < 4; ++thread)
      CHECK(shared->Find("of " + std::to_string(thread), problem) == problem);
  }
}

TEST_CASE("a file that is damaged, or of something else, is begun anew") {
  const ScratchDirectory directory;
  const std::string path = directory.File("engines.db");
  WriteText(path, std::string(5000, 't'));
  auto lists = KeptEngineLists::Open(path);
  REQUIRE(lists != nullptr);
  lists->Keep("a", "conv", "list");
  CHECK(KeptEngineLists::Open(path)->Find("a", "conv") == "list");
  lists = nullptr;
  {
    SqliteConnection other =
        SqliteConnection::Open(directory.File("other.db"), SqliteAccess::kReadWrite).value();
    REQUIRE(other.RunScript("PRAGMA application_id = 1; CREATE TABLE lists (number)").ok());
  }
  std::filesystem::rename(directory.File("other.db"), path);
  lists = KeptEngineLists::Open(path);
  REQUIRE(lists != nullptr);
  CHECK(lists->Find("a", "conv") == std::nullopt);
  lists->Keep("a", "conv", "list");
  CHECK(lists->Find("a", "conv") == "list");
}

TEST_CASE("beyond its bytes, a file loses the older half of its lists") {
  const ScratchDirectory directory;
  const std::string path = directory.File("engines.db");
  constexpr int kLists = 100;
  {
    const auto lists = KeptEngineLists::Open(path);
    for (int i = 0; i < kLists; ++i)
      lists->Keep("library", std::to_string(i), std::string(10'000, 'e'));
  }
  const auto found = [&](int64_t max_bytes) {
    std::vector<int> numbers;
    const auto lists = KeptEngineLists::Open(path, max_bytes);
    for (int i = 0; i < kLists; ++i) {
      if (lists->Find("library", std::to_string(i)).has_value()) numbers.push_back(i);
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
  CHECK(KeptEngineLists::Open(directory.File("file/engines.db")) == nullptr);
  CHECK(KeptEngineLists::Open(directory.path()) == nullptr);
}

}  // namespace
}  // namespace neap::testing
