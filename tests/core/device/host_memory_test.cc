#include "neap/core/device/host_memory.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/scratch_directory.h"

namespace neap {

TEST_CASE("a machine has memory, and a process has at most as much") {
  const int64_t bytes = HostMemoryBytes();
  CHECK(bytes > 0);
  CHECK(bytes <= int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
}

namespace {

// A tree of control groups.
struct Groups {
  std::optional<int64_t> Limit() const {
    return ControlGroupLimitBytes(directory.File("membership"), directory.path());
  }
  void Belongs(const std::string& lines) const { WriteText(directory.File("membership"), lines); }
  // `file` lies in the group's directory.
  void Set(const std::string& file, const std::string& limit) const {
    const std::filesystem::path path = directory.File(file);
    std::filesystem::create_directories(path.parent_path());
    WriteText(path.string(), limit + "\n");
  }
  ScratchDirectory directory;
};

}  // namespace

TEST_CASE("the limit of a process is the least of its control group and the groups around it") {
  const Groups groups;
  CHECK(groups.Limit() == std::nullopt);  // no control groups at all
  groups.Belongs("0::/user/job\n");
  CHECK(groups.Limit() == std::nullopt);
  groups.Set("user/memory.max", "max");
  CHECK(groups.Limit() == std::nullopt);
  groups.Set("user/job/memory.max", "3000");
  groups.Set("other/memory.max", "1");
  CHECK(groups.Limit() == 3000);
  groups.Set("user/memory.max", "2000");
  CHECK(groups.Limit() == 2000);
  groups.Set("memory.max", "1000");  // a container sees its own group as the root
  CHECK(groups.Limit() == 1000);
  groups.Belongs("0::/\n");
  CHECK(groups.Limit() == 1000);
  groups.Belongs("0::/../host/job\n");
  CHECK(groups.Limit() == 1000);
}

TEST_CASE("control groups of version 1 limit a process by the group of the memory controller") {
  const Groups groups;
  groups.Belongs("5:cpu,cpuacct:/a\n4:hugetlb,memory:/docker/b\n1:name=systemd:/c\n0::/d\n");
  groups.Set("memory/a/memory.limit_in_bytes", "1");
  groups.Set("memory/docker/b/memory.limit_in_bytes", "3000");
  CHECK(groups.Limit() == 3000);
  groups.Set("memory/docker/memory.limit_in_bytes", "2000");
  CHECK(groups.Limit() == 2000);
  groups.Set("memory/memory.limit_in_bytes", "9223372036854771712");  // no limit
  CHECK(groups.Limit() == 2000);
  groups.Belongs("4:memory:/no/such/directory\n");
  CHECK(groups.Limit() == 9223372036854771712);
}

TEST_CASE("lines that are not those of control groups are passed over") {
  const Groups groups;
  groups.Set("memory.max", "1000");
  groups.Belongs("\n0\n0:\n0::\n0::a\n");
  CHECK(groups.Limit() == std::nullopt);
}

}  // namespace neap
