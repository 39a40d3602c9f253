#include <benchmark/benchmark.h>

// Google Benchmark prints host name, processors, caches and load by itself.
int main(int argc, char** argv) {
  benchmark::AddCustomContext("neap_commit", NEAP_COMMIT);
  benchmark::AddCustomContext("compiler", __VERSION__);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
