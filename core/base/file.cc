#include "neap/core/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

namespace fs = std::filesystem;

absl::Status SystemError(int error_number, const std::string& path, const std::string& call) {
  const std::string message = absl::StrCat(path, ": ", call);
  if (error_number == EFBIG || error_number == EDQUOT) {
    return absl::ResourceExhaustedError(absl::StrCat(
        message, ": ", error_number == EFBIG ? "File too large" : "Disk quota exceeded"));
  }
  return absl::ErrnoToStatus(error_number, message);
}

bool IsSameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// True if `path` still names the file behind `fd`.
bool IsNamed(const FileDescriptor& fd, const std::string& path) {
  struct stat by_fd = {};
  struct stat by_path = {};
  return fstat(fd.get(), &by_fd) == 0 && stat(path.c_str(), &by_path) == 0 &&
         IsSameFile(by_fd, by_path);
}

absl::Status NotRegular(const std::string& path, const struct stat& status) {
  const char* const kind = S_ISDIR(status.st_mode)    ? "a directory"
                           : S_ISFIFO(status.st_mode) ? "a FIFO"
                           : S_ISSOCK(status.st_mode) ? "a socket"
                                                      : "a device";
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", kind, ", not a regular file"));
}

// Opens and locks `path`. Between the two, the previous owner of the lock may have renamed the file
// to its final name. It must not be touched then, so the name is checked again.
absl::StatusOr<FileDescriptor> OpenLocked(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  while (true) {
    FileDescriptor fd(open(path.c_str(), kFlags, 0666));
    if (!fd.valid()) return SystemError(errno, path, "open");
    struct stat status = {};
    if (fstat(fd.get(), &status) != 0) return SystemError(errno, path, "fstat");
    if (!S_ISREG(status.st_mode)) return NotRegular(path, status);
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return SystemError(errno, path, "flock");
      return absl::UnavailableError(absl::StrCat(path, ": another writer is at work"));
    }
    if (IsNamed(fd, path)) return fd;
  }
}

std::string DirectoryOf(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

// `path` with the symbolic links of its last component followed. The result need not exist.
absl::StatusOr<std::string> FollowLinks(const std::string& path) {
  constexpr int kMaxLinks = 40;  // as many as Linux follows
  fs::path target = path;
  for (int i = 0; i <= kMaxLinks; ++i) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(target, error))) return target.string();
    const fs::path next = fs::read_symlink(target, error);
    if (error) return SystemError(error.value(), path, "readlink");
    target = target.parent_path() / next;
  }
  return SystemError(ELOOP, path, "open");
}

// The file to which the bytes for a path are written.
struct Target {
  std::string path;
  bool is_replaced = true;  // by a rename; otherwise it is opened and written
};

absl::StatusOr<Target> TargetOf(const std::string& path) {
  struct stat status = {};
  const bool exists = stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) return SystemError(errno, path, "open");
  if (exists && (S_ISDIR(status.st_mode) || S_ISSOCK(status.st_mode)))
    return NotRegular(path, status);
  if (exists && !S_ISREG(status.st_mode)) return Target{path, /*is_replaced=*/false};
  ASSIGN_OR_RETURN(std::string target, FollowLinks(path));
  struct stat followed = {};
  // A link in /proc/self/fd may lead to a file that has no name any more.
  const bool has_name =
      !exists || (stat(target.c_str(), &followed) == 0 && IsSameFile(status, followed));
  if (!has_name) return Target{path, /*is_replaced=*/false};
  return Target{std::move(target)};
}

// In a directory with the sticky bit, such as /tmp, every user may create a file, but only its
// owner may replace it.
absl::Status CheckReplaceable(const std::string& target) {
  struct stat file = {};
  struct stat directory = {};
  if (geteuid() == 0 || stat(target.c_str(), &file) != 0) return absl::OkStatus();
  if (stat(DirectoryOf(target).c_str(), &directory) != 0)
    return SystemError(errno, target, "stat of its directory");
  const bool is_ours = file.st_uid == geteuid() || directory.st_uid == geteuid();
  if ((directory.st_mode & S_ISVTX) == 0 || is_ours) return absl::OkStatus();
  return SystemError(EPERM, target, "replace");
}

// Whether both are the same name in the same directory; the file need not exist.
bool IsSamePlace(const std::string& a, const std::string& b) {
  struct stat directory_of_a = {};
  struct stat directory_of_b = {};
  return fs::path(a).filename() == fs::path(b).filename() &&
         stat(DirectoryOf(a).c_str(), &directory_of_a) == 0 &&
         stat(DirectoryOf(b).c_str(), &directory_of_b) == 0 &&
         IsSameFile(directory_of_a, directory_of_b);
}

absl::Status WriteAll(const FileDescriptor& fd, const std::string& path,
                      absl::Span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(errno, path, "write");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
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
  // O_NONBLOCK: does not wait for a writer if this is a FIFO.
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status = {};
  if (!fd.valid()) {
    const int error = errno;
    const bool is_socket = stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
    return is_socket ? NotRegular(path, status) : SystemError(error, path, "open");
  }
  if (fstat(fd.get(), &status) != 0) return SystemError(errno, path, "fstat");
  if (!S_ISREG(status.st_mode)) return NotRegular(path, status);
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

absl::StatusOr<std::string> ReadableFile::ReadAll(int64_t most_bytes) const {
  if (size_bytes_ > most_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": has ", size_bytes_, " bytes; at most ", most_bytes, " are read"));
  }
  std::string text;
  try {
    text.resize(static_cast<size_t>(size_bytes_));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path_, ": no memory for ", size_bytes_, " bytes"));
  }
  RETURN_IF_ERROR(ReadAt(0, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
  return text;
}

absl::Status ReadableFile::Corrupt(int64_t offset, const std::string& what) const {
  return absl::DataLossError(absl::StrCat(path_, ": byte ", offset, ": ", what));
}

absl::StatusOr<AtomicFile> AtomicFile::Create(std::string path) {
  ASSIGN_OR_RETURN(Target target, TargetOf(path));
  AtomicFile file(std::move(path), std::move(target.path));
  if (!target.is_replaced) {
    if (faccessat(AT_FDCWD, file.path_.c_str(), W_OK, AT_EACCESS) != 0)
      return SystemError(errno, file.path_, "open");
    file.kept_.emplace();
    return file;
  }
  RETURN_IF_ERROR(CheckReplaceable(file.target_));
  ASSIGN_OR_RETURN(file.fd_, OpenLocked(file.temporary_));
  if (ftruncate(file.fd_.get(), 0) != 0) return file.Fail(errno, "truncate");
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_.valid()) unlink(temporary_.c_str());
}

absl::Status AtomicFile::WriteAt(int64_t offset, absl::Span<const std::byte> bytes) {
  if (!is_open()) return absl::FailedPreconditionError(absl::StrCat(path_, ": is closed"));
  if (kept_.has_value()) {
    const auto begin = static_cast<size_t>(offset);
    kept_->resize(std::max(kept_->size(), begin + bytes.size()));
    std::copy(bytes.begin(), bytes.end(), kept_->begin() + offset);
    return absl::OkStatus();
  }
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
  if (!is_open()) return absl::FailedPreconditionError(absl::StrCat(path_, ": is closed"));
  if (kept_.has_value()) {
    const absl::Status status = WriteKept();
    kept_.reset();
    return status;
  }
  if (fsync(fd_.get()) != 0) return Fail(errno, "fsync");
  if (rename(temporary_.c_str(), target_.c_str()) != 0) return Fail(errno, "rename");
  // Closed only now: the lock lasts until the temporary name is gone.
  if (const int error = fd_.Close(); error != 0) return SystemError(error, path_, "close");
  return SyncDirectory();
}

absl::Status AtomicFile::Fail(int error_number, const std::string& call) {
  unlink(temporary_.c_str());
  fd_.Close();
  return SystemError(error_number, path_, call);
}

absl::Status AtomicFile::WriteKept() const {
  // O_NONBLOCK: does not wait for a FIFO's reader. The write below does wait until all is read.
  constexpr int kFlags = O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  FileDescriptor fd(open(target_.c_str(), kFlags));
  if (!fd.valid() && errno == ENXIO)
    return absl::FailedPreconditionError(absl::StrCat(path_, ": no process reads from it"));
  if (!fd.valid()) return SystemError(errno, path_, "open");
  if (fcntl(fd.get(), F_SETFL, 0) != 0) return SystemError(errno, path_, "fcntl");
  RETURN_IF_ERROR(WriteAll(fd, path_, *kept_));
  const int error = fd.Close();
  return error == 0 ? absl::OkStatus() : SystemError(error, path_, "close");
}

absl::Status AtomicFile::SyncDirectory() const {
  const std::string directory = DirectoryOf(target_);
  const FileDescriptor fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return SystemError(errno, directory, "open");
  // EINVAL: a file system that does not support fsync of directories.
  if (fsync(fd.get()) != 0 && errno != EINVAL) return SystemError(errno, directory, "fsync");
  return absl::OkStatus();
}

absl::Status CheckWritable(const std::string& path) { return AtomicFile::Create(path).status(); }

bool OverwriteEachOther(const std::string& a, const std::string& b) {
  const absl::StatusOr<Target> target_of_a = TargetOf(a);
  const absl::StatusOr<Target> target_of_b = TargetOf(b);
  if (!target_of_a.ok() || !target_of_b.ok()) return false;
  if (!target_of_a->is_replaced || !target_of_b->is_replaced) return false;
  const std::string& path_of_a = target_of_a->path;
  const std::string& path_of_b = target_of_b->path;
  struct stat file_a = {};
  struct stat file_b = {};
  const bool exist = stat(path_of_a.c_str(), &file_a) == 0 && stat(path_of_b.c_str(), &file_b) == 0;
  return (exist && IsSameFile(file_a, file_b)) || IsSamePlace(path_of_a, path_of_b) ||
         IsSamePlace(path_of_a + ".tmp", path_of_b) || IsSamePlace(path_of_a, path_of_b + ".tmp");
}

}  // namespace neap
