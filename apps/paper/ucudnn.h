// The items of u-cuDNN (Oyama et al., "Accelerating Deep Learning Frameworks with Micro-Batches",
// CLUSTER 2018, section IV), and the convolutions that they measure.
//
// Times are measured on --device, or read from --database, and kept there: items that need the same
// convolutions measure them once.
//
//   ASSIGN_OR_RETURN(const ConvBenchReport report,
//                    MeasuredConvolutions(run, AlexNet(run, DivisionPolicy::kAll, {64})));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/bench/conv_measure.h"
#include "apps/paper/paper_item.h"

namespace neap::apps::ucudnn {

// The convolutions of the request on the device or in the database of the run. In the small form
// each engine is measured once. CANCELLED after Ctrl-C.
absl::StatusOr<ConvBenchReport> MeasuredConvolutions(const PaperRun& run, ConvBenchRequest request);
// A network in fp32 NCHW.
NetFlags NetAt(const std::string& name, int64_t batch);
// AlexNet at batch 256 under these limits for each kernel, in MiB; in the small form LeNet at batch
// 4, in UnitOf().
ConvBenchRequest AlexNet(const PaperRun& run, DivisionPolicy divisions,
                         const std::vector<int64_t>& limits);
// A MiB; 32 KiB in the small form.
int64_t UnitOf(const PaperRun& run);
// "AlexNet, batch 256, fp32, executed on NVIDIA H200 (cuDNN 9.19.0)"
std::string SettingOf(const ConvBenchReport& report);
// "conv2 forward"
std::string NameOf(const ConvKernel& kernel);

// ucudnn_kernels.cc
absl::StatusOr<PaperReport> Figure1(const PaperRun& run);
absl::StatusOr<PaperReport> Figure6(const PaperRun& run);
absl::StatusOr<PaperReport> Figure8(const PaperRun& run);
absl::StatusOr<PaperReport> Figure9(const PaperRun& run);
absl::StatusOr<PaperReport> Figure10(const PaperRun& run);
// ucudnn_networks.cc
absl::StatusOr<PaperReport> Figure11(const PaperRun& run);
absl::StatusOr<PaperReport> Figure12(const PaperRun& run);
absl::StatusOr<PaperReport> Table5(const PaperRun& run);
absl::StatusOr<PaperReport> IntegerPrograms(const PaperRun& run);
// ucudnn_cluster.cc
absl::StatusOr<PaperReport> Figure13(const PaperRun& run);

}  // namespace neap::apps::ucudnn
