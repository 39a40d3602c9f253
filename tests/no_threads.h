// While a NoThreads exists, the system refuses every new thread, as on a machine that has too many.
//
//   const NoThreads none;
//   CHECK(absl::IsResourceExhausted(CpuDevice::Open().status()));
#pragma once

#include <doctest/doctest.h>
#include <pthread.h>

#include <cstddef>

namespace neap::testing {

class NoThreads {
 public:
  NoThreads() {
    REQUIRE(pthread_getattr_default_np(&before_) == 0);
    pthread_attr_t huge;
    REQUIRE(pthread_attr_init(&huge) == 0);
    REQUIRE(pthread_attr_setstacksize(&huge, kStackBytes) == 0);
    REQUIRE(pthread_setattr_default_np(&huge) == 0);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  static constexpr size_t kStackBytes = size_t{1} << 47;  // the whole address space
  pthread_attr_t before_;
};

}  // namespace neap::testing
