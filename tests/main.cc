#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#ifdef NEAP_SANITIZED
// oneDNN's library is not instrumented, so that ThreadSanitizer does not see the locks of its cache
// of primitives when two threads make kernels.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_suppressions() { return "race:libdnnl.so\nrace:^dnnl::\n"; }
#endif
