// Files that are read without surprises and written atomically.
//
// A training run may be killed at any moment, and disks fill up. A file is therefore never changed
// in place: its successor is written under another name and renamed once it is complete and on the
// disk. A reader finds either the old file or the new one, whole. Readers may rely on that, but
// still check everything: disks also lose data.
//
//   ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create("model.safetensors"));
//   RETURN_IF_ERROR(file.WriteAt(0, bytes));
//   RETURN_IF_ERROR(file.Commit());  // until this returns, readers see the old file, if any
//
// Paths come from users and may name anything. Only regular files are read: opening a FIFO would
// wait for its writer, perhaps forever. Only regular files are replaced: a symbolic link stays and
// its target is replaced, and a device or a FIFO is opened and written by Commit().
//
// *Errors*: a status naming the file: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (full disk),
// DATA_LOSS (a file shorter than what is read from it; with the byte offset), INVALID_ARGUMENT (not
// a regular file, but has to be one), otherwise the operating system's error. Two failures are
// errors only if the process ignores a signal, which otherwise ends it: SIGXFSZ if a file exceeds
// the process's size limit, SIGPIPE if a FIFO's reader leaves before it has read everything
// (FAILED_PRECONDITION).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace neap {

// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // 0, or the errno of close().
  int Close();

 private:
  int fd_ = -1;
};

// A file open for reading. *Threads*: ReadAt is safe from several at once.
class ReadableFile {
 public:
  static absl::StatusOr<ReadableFile> Open(std::string path);
  const std::string& path() const { return path_; }
  int64_t size_bytes() const { return size_bytes_; }  // when it was opened
  // Fills `bytes` from `offset`.
  absl::Status ReadAt(int64_t offset, absl::Span<std::byte> bytes) const;
  // Errors: also INVALID_ARGUMENT for a file of more bytes, and RESOURCE_EXHAUSTED.
  absl::StatusOr<std::string> ReadAll(int64_t most_bytes) const;
  // DATA_LOSS: "PATH: byte OFFSET: WHAT".
  absl::Status Corrupt(int64_t offset, const std::string& what) const;

 private:
  ReadableFile(FileDescriptor fd, std::string path, int64_t size_bytes)
      : fd_(std::move(fd)), path_(std::move(path)), size_bytes_(size_bytes) {}
  FileDescriptor fd_;
  std::string path_;
  int64_t size_bytes_ = 0;
};

// The successor of the file at `path`, kept as PATH.tmp until Commit. Destroying it before that
// leaves no trace; killing the process leaves a PATH.tmp that the next writer overwrites and no
// reader opens. A lock on PATH.tmp keeps two writers apart: the second gets UNAVAILABLE. If `path`
// is a symbolic link, PATH stands for the link's target.
//
// A path that names a device or a FIFO has no successor: the bytes are kept in memory until Commit.
class AtomicFile {
 public:
  static absl::StatusOr<AtomicFile> Create(std::string path);
  ~AtomicFile();
  AtomicFile(AtomicFile&&) noexcept = default;
  AtomicFile& operator=(AtomicFile&&) = delete;

  const std::string& path() const { return path_; }
  // Any order; gaps are zeros. A failure removes the temporary file.
  absl::Status WriteAt(int64_t offset, absl::Span<const std::byte> bytes);
  // fsync, rename, fsync of the directory; or, to a device or a FIFO, one write of everything.
  // Nothing can be written afterwards. Errors: FAILED_PRECONDITION for a FIFO without a reader.
  absl::Status Commit();

 private:
  AtomicFile(std::string path, std::string target)
      : path_(std::move(path)), target_(std::move(target)), temporary_(target_ + ".tmp") {}
  bool is_open() const { return fd_.valid() || kept_.has_value(); }
  absl::Status Fail(int error_number, const std::string& call);
  absl::Status WriteKept() const;
  absl::Status SyncDirectory() const;

  FileDescriptor fd_;  // of the temporary file; invalid once committed or failed
  std::optional<std::vector<std::byte>> kept_;  // for a target that is not a regular file
  std::string path_;
  std::string target_;  // `path_` with its symbolic links followed
  std::string temporary_;
};

// Whether AtomicFile::Create could write to `path` now: a check before hours of work. An existing
// file is not changed, and no file is left behind.
absl::Status CheckWritable(const std::string& path);

// Whether writing to one path would destroy what was written to the other: both lead to the same
// file (whatever the spelling or links, and whether or not it exists yet), or one of them is the
// other's temporary file. Never true for devices and FIFOs, which may be written to twice.
bool OverwriteEachOther(const std::string& a, const std::string& b);

}  // namespace neap
