#include "neap/core/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

absl::Status SystemError(int error_number, const std::string& path, const std::string& call) {
  const std::string message = absl::StrCat(path, ": ", call);
  if (error_number == EFBIG || error_number == EDQUOT) {
    return absl::ResourceExhaustedError(absl::StrCat(
        message, ": ", error_number == EFBIG ? "File too large" : "Disk quota exceeded"));
  }
  return absl::ErrnoToStatus(error_number, message);
}

// True if `path` still names the file behind `fd`.
bool IsNamed(const FileDescriptor& fd, const std::string& path) {
  struct stat by_fd = {};
  struct stat by_path = {};
  return fstat(fd.get(), &by_fd) == 0 && stat(path.c_str(), &by_path) == 0 &&
         by_fd.st_dev == by_path.st_dev && by_fd.st_ino == by_path.st_ino;
}

// Opens and locks `path`. Between the two, the previous owner of the lock may have renamed the file
// to its final name; it must not be touched then, hence the second look.
absl::StatusOr<FileDescriptor> OpenLocked(const std::string& path) {
  while (true) {
    FileDescriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!fd.valid()) return SystemError(errno, path, "open");
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return SystemError(errno, path, "flock");
      return absl::UnavailableError(absl::StrCat(path, ": another writer is at work"));
    }
    if (IsNamed(fd, path)) return fd;
  }
}

}  // namespace

FileDescriptor::~FileDescriptor() { Close(); }

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

int FileDescriptor::Close() {
  const int fd = std::exchange(fd_, -1);
  return fd >= 0 && close(fd) != 0 ? errno : 0;
}

absl::StatusOr<ReadableFile> ReadableFile::Open(std::string path) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return SystemError(errno, path, "open");
  struct stat status = {};
  if (fstat(fd.get(), &status) != 0) return SystemError(errno, path, "fstat");
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  return ReadableFile(std::move(fd), std::move(path), status.st_size);
}

absl::Status ReadableFile::ReadAt(int64_t offset, absl::Span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = pread(fd_.get(), bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(errno, path_, absl::StrCat("byte ", offset, ": read"));
    if (count == 0)
      return Corrupt(offset, absl::StrCat("the file ends ", bytes.size(), " bytes too early"));
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += count;
  }
  return absl::OkStatus();
}

absl::Status ReadableFile::Corrupt(int64_t offset, const std::string& what) const {
  return absl::DataLossError(absl::StrCat(path_, ": byte ", offset, ": ", what));
}

absl::StatusOr<AtomicFile> AtomicFile::Create(std::string path) {
  ASSIGN_OR_RETURN(FileDescriptor fd, OpenLocked(path + ".tmp"));
  AtomicFile file(std::move(fd), std::move(path));
  if (ftruncate(file.fd_.get(), 0) != 0) return file.Fail(errno, "truncate");
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_.valid()) unlink(temporary_.c_str());
}

absl::Status AtomicFile::WriteAt(int64_t offset, absl::Span<const std::byte> bytes) {
  if (!fd_.valid()) return absl::FailedPreconditionError(absl::StrCat(path_, ": is closed"));
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd_.get(), bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Fail(errno, "write");
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += count;
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (!fd_.valid()) return absl::FailedPreconditionError(absl::StrCat(path_, ": is closed"));
  if (fsync(fd_.get()) != 0) return Fail(errno, "fsync");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return Fail(errno, "rename");
  // Closed only now: the lock lasts until the temporary name is gone.
  if (const int error = fd_.Close(); error != 0) return SystemError(error, path_, "close");
  return SyncDirectory();
}

absl::Status AtomicFile::Fail(int error_number, const std::string& call) {
  unlink(temporary_.c_str());
  fd_.Close();
  return SystemError(error_number, path_, call);
}

absl::Status AtomicFile::SyncDirectory() const {
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  const std::string directory = parent.empty() ? "." : parent.string();
  const FileDescriptor fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return SystemError(errno, directory, "open");
  // EINVAL: a file system without directories to sync.
  if (fsync(fd.get()) != 0 && errno != EINVAL) return SystemError(errno, directory, "fsync");
  return absl::OkStatus();
}

}  // namespace neap
