// Files, read without surprises and written all or not at all.
//
// A training run is killed at any moment, and disks fill. So a file is never changed in place: its
// successor grows under another name and takes the name when it is complete and on the disk.
// Whoever opens a name finds the old file or the new one, whole. Readers may rely on that, and
// still check everything: disks also forget.
//
//   ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create("model.safetensors"));
//   RETURN_IF_ERROR(file.WriteAt(0, bytes));
//   RETURN_IF_ERROR(file.Commit());  // until this returns, readers see the old file, if any
//
// *Errors*: a status naming the file: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (full disk),
// DATA_LOSS (a file shorter than what is read from it; with the byte offset), otherwise what the
// operating system says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

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
  // DATA_LOSS: "PATH: byte OFFSET: WHAT".
  absl::Status Corrupt(int64_t offset, const std::string& what) const;

 private:
  ReadableFile(FileDescriptor fd, std::string path, int64_t size_bytes)
      : fd_(std::move(fd)), path_(std::move(path)), size_bytes_(size_bytes) {}
  FileDescriptor fd_;
  std::string path_;
  int64_t size_bytes_ = 0;
};

// The successor of the file at `path`, kept as PATH.tmp until Commit. Destroyed before that, it
// leaves no trace; killed, it leaves a PATH.tmp that the next writer overwrites and no reader
// opens. A lock on PATH.tmp keeps two writers apart: the second gets UNAVAILABLE.
class AtomicFile {
 public:
  static absl::StatusOr<AtomicFile> Create(std::string path);
  ~AtomicFile();
  AtomicFile(AtomicFile&&) noexcept = default;
  AtomicFile& operator=(AtomicFile&&) = delete;

  const std::string& path() const { return path_; }
  // Any order; gaps are zeros. A failure removes the temporary file.
  absl::Status WriteAt(int64_t offset, absl::Span<const std::byte> bytes);
  // fsync, rename, fsync of the directory. Nothing can be written afterwards.
  absl::Status Commit();

 private:
  AtomicFile(FileDescriptor fd, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)), temporary_(path_ + ".tmp") {}
  absl::Status Fail(int error_number, const std::string& call);
  absl::Status SyncDirectory() const;

  FileDescriptor fd_;  // invalid once committed or failed
  std::string path_;
  std::string temporary_;
};

}  // namespace neap
