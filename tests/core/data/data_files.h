// Files of arrays and volumes, byte by byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "neap/core/base/crc32.h"
#include "tests/scratch_directory.h"

namespace neap::testing {

template <typename Value>
std::string LittleEndian(Value value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <typename Value>
std::string LittleEndian(const std::vector<Value>& values) {
  std::string bytes;
  for (const Value value : values) bytes += LittleEndian(value);
  return bytes;
}

struct NpyForm {
  int version = 1;
  bool fortran_order = false;
};

// As numpy.save() writes it: the header is filled with spaces to a multiple of 64 bytes.
inline std::string NpyBytes(const std::string& type, const std::string& shape,
                            const std::string& elements, NpyForm form = {}) {
  std::string text = "{'descr': '" + type +
                     "', 'fortran_order': " + (form.fortran_order ? "True" : "False") +
                     ", 'shape': " + shape + ", }";
  const size_t start = form.version == 1 ? 10 : 12;
  while ((start + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(form.version);
  bytes += '\0';
  bytes += form.version == 1 ? LittleEndian(static_cast<uint16_t>(text.size()))
                             : LittleEndian(static_cast<uint32_t>(text.size()));
  return bytes + text + elements;
}

struct NiftiForm {
  int16_t datatype = 16;  // float
  int16_t bits = 32;
  float slope = 0;
  float shift = 0;
};

// A NIfTI-1 file of one part (nifti1.h): 348 bytes of header, 4 without extensions, the voxels.
inline std::string NiftiBytes(const std::vector<int16_t>& extents, const std::string& voxels,
                              NiftiForm form = {}) {
  std::string header(352, '\0');
  const auto put = [&](size_t at, const std::string& bytes) {
    header.replace(at, bytes.size(), bytes);
  };
  put(0, LittleEndian(int32_t{348}));
  put(40, LittleEndian(static_cast<int16_t>(extents.size())));
  for (size_t axis = 0; axis < 7; ++axis) {
    put(42 + 2 * axis, LittleEndian(axis < extents.size() ? extents[axis] : int16_t{1}));
    put(80 + 4 * axis, LittleEndian(1.0F));
  }
  put(70, LittleEndian(form.datatype));
  put(72, LittleEndian(form.bits));
  put(108, LittleEndian(352.0F));
  put(112, LittleEndian(form.slope));
  put(116, LittleEndian(form.shift));
  put(344, std::string("n+1\0", 4));
  return header + voxels;
}

// The bytes in gzip's format, not compressed. At most 65,535.
inline std::string StoredGzip(const std::string& bytes) {
  const auto size = static_cast<uint16_t>(bytes.size());
  Crc32 crc;
  crc.Add({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  return std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x01", 11) + LittleEndian(size) +
         LittleEndian(static_cast<uint16_t>(~size)) + bytes + LittleEndian(crc.value()) +
         LittleEndian(static_cast<uint32_t>(size));
}

// Writes a file, and the folders above it.
inline void WriteWithin(const ScratchDirectory& root, const std::string& name,
                        const std::string& bytes) {
  const std::filesystem::path path = root.File(name);
  std::filesystem::create_directories(path.parent_path());
  WriteText(path, bytes);
}

}  // namespace neap::testing
