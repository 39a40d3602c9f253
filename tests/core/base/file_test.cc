#include "neap/core/base/file.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "tests/scratch_directory.h"

namespace neap {
namespace {

absl::Span<const std::byte> Bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

absl::Status WriteFile(const std::string& path, std::string_view text) {
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(path);
  if (!file.ok()) return file.status();
  if (absl::Status status = file->WriteAt(0, Bytes(text)); !status.ok()) return status;
  return file->Commit();
}

TEST_CASE("a committed file replaces the old one and leaves no temporary") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a");
  WriteText(path, "a longer old text");
  REQUIRE(WriteFile(path, "new").ok());
  CHECK(ReadText(path) == "new");
  CHECK(!std::filesystem::exists(path + ".tmp"));
}

TEST_CASE("a file in the current directory needs no directory in its name") {
  const ScratchDirectory directory;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  CHECK(WriteFile("plain", "text").ok());
  std::filesystem::current_path(before);
  CHECK(ReadText(directory.File("plain")) == "text");
}

TEST_CASE("a file that is not committed leaves the old one and no temporary") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a");
  WriteText(path, "old");
  {
    absl::StatusOr<AtomicFile> file = AtomicFile::Create(path);
    REQUIRE(file.ok());
    REQUIRE(file->WriteAt(0, Bytes("new")).ok());
    CHECK(ReadText(path) == "old");
    CHECK(std::filesystem::exists(path + ".tmp"));
  }
  CHECK(ReadText(path) == "old");
  CHECK(!std::filesystem::exists(path + ".tmp"));
}

TEST_CASE("the temporary of a killed writer is overwritten, however long it is") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a");
  WriteText(path + ".tmp", std::string(100'000, 'x'));
  REQUIRE(WriteFile(path, "new").ok());
  CHECK(ReadText(path) == "new");
}

TEST_CASE("a second writer of the same file is turned away until the first is done") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a");
  absl::StatusOr<AtomicFile> first = AtomicFile::Create(path);
  REQUIRE(first.ok());
  CHECK(absl::IsUnavailable(AtomicFile::Create(path).status()));
  REQUIRE(first->Commit().ok());
  CHECK(AtomicFile::Create(path).ok());
}

TEST_CASE("nothing can be written after the commit") {
  const ScratchDirectory directory;
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(directory.File("a"));
  REQUIRE(file.ok());
  REQUIRE(file->Commit().ok());
  CHECK(absl::IsFailedPrecondition(file->WriteAt(0, Bytes("x"))));
  CHECK(absl::IsFailedPrecondition(file->Commit()));
}

TEST_CASE("a moved file is still removed once when it is abandoned") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a");
  {
    absl::StatusOr<AtomicFile> file = AtomicFile::Create(path);
    REQUIRE(file.ok());
    const AtomicFile moved = *std::move(file);
    CHECK(std::filesystem::exists(path + ".tmp"));
  }
  CHECK(!std::filesystem::exists(path + ".tmp"));
}

TEST_CASE("a directory that is not there is NOT_FOUND with its name") {
  const absl::Status status = WriteFile("no_such_directory/a", "x");
  CHECK(absl::IsNotFound(status));
  CHECK(status.message().find("no_such_directory/a") != absl::string_view::npos);
}

TEST_CASE("a failing rename leaves no temporary") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a");
  std::filesystem::create_directories(path + "/inner");  // a file cannot take a directory's name
  CHECK(!WriteFile(path, "x").ok());
  CHECK(!std::filesystem::exists(path + ".tmp"));
  CHECK(std::filesystem::is_directory(path));
}

// The limit on file sizes stands for a full disk: write() fails in the middle of a file.
TEST_CASE("a write that fails leaves the old file and removes the temporary") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a");
  WriteText(path, "old");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    const absl::Status status = WriteFile(path, std::string(10'000, 'x'));
    _exit(absl::IsResourceExhausted(status) ? 0 : 1);
  }
  int result = -1;
  REQUIRE(waitpid(child, &result, 0) == child);
  CHECK(WIFEXITED(result));
  CHECK(WEXITSTATUS(result) == 0);
  CHECK(ReadText(path) == "old");
  CHECK(!std::filesystem::exists(path + ".tmp"));
}

TEST_CASE("reading past the end is DATA_LOSS naming file and byte") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a");
  WriteText(path, "12345");
  const absl::StatusOr<ReadableFile> file = ReadableFile::Open(path);
  REQUIRE(file.ok());
  CHECK(file->size_bytes() == 5);
  std::vector<std::byte> bytes(4);
  CHECK(file->ReadAt(1, absl::MakeSpan(bytes)).ok());
  CHECK(bytes.front() == std::byte('2'));
  const absl::Status status = file->ReadAt(3, absl::MakeSpan(bytes));
  CHECK(absl::IsDataLoss(status));
  CHECK(std::string(status.message()) == path + ": byte 5: the file ends 2 bytes too early");
}

TEST_CASE("a missing file is NOT_FOUND, and a directory is no file") {
  const ScratchDirectory directory;
  CHECK(absl::IsNotFound(ReadableFile::Open(directory.File("a")).status()));
  CHECK(absl::IsInvalidArgument(ReadableFile::Open(directory.path()).status()));
}

}  // namespace
}  // namespace neap
