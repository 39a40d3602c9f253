#include "neap/core/base/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/scratch_directory.h"
#include "tests/skip.h"

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

TEST_CASE("a second writer of the same file is refused until the first has finished") {
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

TEST_CASE("a missing directory is NOT_FOUND with its name") {
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

TEST_CASE("a missing file is NOT_FOUND, and a directory is not a file") {
  const ScratchDirectory directory;
  CHECK(absl::IsNotFound(ReadableFile::Open(directory.File("a")).status()));
  CHECK(absl::IsInvalidArgument(ReadableFile::Open(directory.path()).status()));
}

namespace fs = std::filesystem;

// A FIFO and its reading end, which does not wait for a writer.
struct Fifo {
  explicit Fifo(const std::string& path) {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    reader = FileDescriptor(open(path.c_str(), O_RDONLY | O_NONBLOCK));
    REQUIRE(reader.valid());
  }
  std::string Text() const {
    std::array<char, 4096> bytes = {};
    const ssize_t count = read(reader.get(), bytes.data(), bytes.size());
    return std::string(bytes.data(), static_cast<size_t>(std::max<ssize_t>(0, count)));
  }
  FileDescriptor reader;
};

TEST_CASE("a FIFO, a socket, a device and a directory are refused without waiting") {
  const ScratchDirectory directory;
  const std::string fifo = directory.File("fifo");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const std::string path = directory.File("socket");
  const FileDescriptor socket_fd(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof(address.sun_path));
  std::copy(path.begin(), path.end(), address.sun_path);
  REQUIRE(bind(socket_fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  const std::pair<std::string, std::string> cases[] = {
      {fifo, "a FIFO, not a regular file"},
      {path, "a socket, not a regular file"},
      {"/dev/null", "a device, not a regular file"},
      {directory.path(), "a directory, not a"}};
  for (const auto& [named, complaint] : cases) {
    const absl::Status status = ReadableFile::Open(named).status();
    CAPTURE(status.ToString());
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()).find(named + ": " + complaint) == 0);
  }
}

TEST_CASE("through a symbolic link its target is replaced, and the link stays") {
  const ScratchDirectory directory;
  fs::create_directories(directory.File("far"));
  const std::string target = directory.File("far/target");
  const std::string link = directory.File("link");
  fs::create_symlink("far/second", link);  // relative to where the link is
  fs::create_symlink(target, directory.File("far/second"));
  for (const char* const text : {"made", "replaced"}) {  // without and with an existing file
    REQUIRE(WriteFile(link, text).ok());
    CHECK(ReadText(target) == text);
    CHECK(fs::is_symlink(fs::symlink_status(link)));
    CHECK(fs::is_symlink(fs::symlink_status(directory.File("far/second"))));
    CHECK(!fs::is_symlink(fs::symlink_status(target)));
    CHECK(!fs::exists(target + ".tmp"));
  }
}

TEST_CASE("links in a circle, and a link into a missing directory, are errors") {
  const ScratchDirectory directory;
  fs::create_symlink("b", directory.File("a"));
  fs::create_symlink("a", directory.File("b"));
  CHECK(!WriteFile(directory.File("a"), "x").ok());
  fs::create_symlink("nowhere/c", directory.File("c"));
  CHECK(absl::IsNotFound(WriteFile(directory.File("c"), "x")));
  CHECK(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()) == 3);
}

TEST_CASE("a FIFO is written when the file is complete, in the order of the bytes, and stays") {
  const ScratchDirectory directory;
  const std::string path = directory.File("fifo");
  const Fifo fifo(path);
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(path);
  REQUIRE(file.ok());
  REQUIRE(file->WriteAt(4, Bytes("last")).ok());
  REQUIRE(file->WriteAt(0, Bytes("two ")).ok());
  CHECK(fifo.Text().empty());
  REQUIRE(file->Commit().ok());
  CHECK(fifo.Text() == "two last");
  CHECK(absl::IsFailedPrecondition(file->Commit()));
  CHECK(fs::is_fifo(path));
  CHECK(!fs::exists(path + ".tmp"));
}

// More than a pipe holds, so that the writer waits for the reader until it leaves.
TEST_CASE("a FIFO whose reader leaves is an error if SIGPIPE is ignored") {
  const ScratchDirectory directory;
  const std::string path = directory.File("fifo");
  Fifo fifo(path);
  const auto before = signal(SIGPIPE, SIG_IGN);
  std::thread reader([&] {
    char byte = 0;
    while (read(fifo.reader.get(), &byte, 1) != 1) std::this_thread::yield();
    fifo.reader.Close();
  });
  const absl::Status status = WriteFile(path, std::string(1 << 20, 'x'));
  reader.join();
  signal(SIGPIPE, before);
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(std::string(status.message()) == path + ": write: Broken pipe");
}

TEST_CASE("a FIFO without a reader is an error, reported without waiting") {
  const ScratchDirectory directory;
  const std::string path = directory.File("fifo");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const absl::Status status = WriteFile(path, "x");
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(std::string(status.message()) == path + ": no process reads from it");
  CHECK(fs::is_fifo(path));
}

TEST_CASE("a device is written and stays a device; one that is full is RESOURCE_EXHAUSTED") {
  const ScratchDirectory directory;
  const std::string null = directory.File("null");
  const std::string full = directory.File("full");
  fs::create_symlink("/dev/null", null);
  fs::create_symlink("/dev/full", full);
  CHECK(WriteFile(null, "x").ok());
  CHECK(absl::IsResourceExhausted(WriteFile(full, "x")));
  for (const std::string& path : {null, full}) {
    CHECK(fs::is_symlink(fs::symlink_status(path)));
    CHECK(fs::is_character_file(path));
  }
}

TEST_CASE("a temporary name that something else has is left alone") {
  const ScratchDirectory directory;
  const std::string path = directory.File("a");
  const Fifo fifo(path + ".tmp");
  CHECK(absl::IsInvalidArgument(WriteFile(path, "x")));
  CHECK(fs::is_fifo(path + ".tmp"));
  CHECK(!fs::exists(path));
}

TEST_CASE("asking whether a file can be written leaves everything as it was") {
  const ScratchDirectory directory;
  const std::string old = directory.File("old");
  WriteText(old, "old");
  const std::string fifo_path = directory.File("fifo");
  const Fifo fifo(fifo_path);
  CHECK(CheckWritable(old).ok());
  CHECK(CheckWritable(directory.File("new")).ok());
  CHECK(CheckWritable(fifo_path).ok());
  CHECK(CheckWritable("/dev/null").ok());
  CHECK(ReadText(old) == "old");
  CHECK(absl::IsNotFound(CheckWritable(directory.File("no/such/folder"))));
  CHECK(absl::IsInvalidArgument(CheckWritable(directory.path())));
  CHECK(!CheckWritable(directory.File("old/in a file")).ok());
  CHECK(!CheckWritable(directory.File(std::string(300, 'x'))).ok());
  CHECK(!CheckWritable("/proc/neap").ok());
  CHECK(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()) == 2);
}

// The result of `check` in a process of an unprivileged user.
absl::StatusCode AsNobody(const std::function<absl::Status()>& check) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool is_nobody = setgid(65534) == 0 && setuid(65534) == 0;
    _exit(is_nobody ? static_cast<int>(check().code()) : 127);
  }
  int result = -1;
  REQUIRE(waitpid(child, &result, 0) == child);
  REQUIRE(WIFEXITED(result));
  return static_cast<absl::StatusCode>(WEXITSTATUS(result));
}

TEST_CASE("what this user may not write is PERMISSION_DENIED before anything is written") {
  if (geteuid() != 0) return testing::SkipCase("only root can become another user");
  const ScratchDirectory directory;
  fs::permissions(directory.path(), fs::perms::all | fs::perms::sticky_bit);
  const std::string another = directory.File("another's");
  WriteText(another, "old");
  fs::create_directories(directory.File("closed"));
  const auto code = [](const std::string& path) {
    return AsNobody([&] { return CheckWritable(path); });
  };
  CHECK(code(directory.File("new")) == absl::StatusCode::kOk);
  CHECK(code(another) == absl::StatusCode::kPermissionDenied);  // the directory is sticky
  CHECK(code(directory.File("closed/new")) == absl::StatusCode::kPermissionDenied);
  CHECK(AsNobody([&] { return WriteFile(another, "x"); }) == absl::StatusCode::kPermissionDenied);
  fs::permissions(directory.path(), fs::perms::all);
  CHECK(code(another) == absl::StatusCode::kOk);
  CHECK(ReadText(another) == "old");
}

TEST_CASE("two paths overwrite each other if they lead to one file, whether or not it exists") {
  const ScratchDirectory directory;
  fs::create_directories(directory.File("folder"));
  const std::string old = directory.File("old");
  const std::string missing = directory.File("missing");
  WriteText(old, "old");
  WriteText(directory.File("other"), "other");
  fs::create_symlink("old", directory.File("link"));
  fs::create_hard_link(old, directory.File("hard link"));
  fs::create_symlink("../missing", directory.File("folder/dangling"));
  fs::create_symlink(directory.path(), directory.File("folder/back"));
  fs::create_symlink("/dev/null", directory.File("null"));
  CHECK(OverwriteEachOther(old, old));
  CHECK(OverwriteEachOther(old, directory.path() + "/./folder/../old"));
  CHECK(OverwriteEachOther(old, directory.File("link")));
  CHECK(OverwriteEachOther(directory.File("hard link"), directory.File("link")));
  CHECK(OverwriteEachOther(old, directory.File("folder/back/old")));
  CHECK(OverwriteEachOther(missing, directory.path() + "//missing"));
  CHECK(OverwriteEachOther(missing, directory.File("folder/dangling")));
  CHECK(OverwriteEachOther(missing, directory.File("folder/back/missing")));
  CHECK(OverwriteEachOther(missing, missing + ".tmp"));
  CHECK(OverwriteEachOther(old + ".tmp", directory.File("link")));
  CHECK_FALSE(OverwriteEachOther(old, directory.File("other")));
  CHECK_FALSE(OverwriteEachOther(old, missing));
  CHECK_FALSE(OverwriteEachOther(missing, directory.File("folder/missing")));
  CHECK_FALSE(OverwriteEachOther("/dev/null", "/dev/null"));
  CHECK_FALSE(OverwriteEachOther(directory.File("null"), "/dev/null"));
}

}  // namespace
}  // namespace neap
