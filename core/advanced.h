// neap's whole public interface: neap.h, and what programs need that do more than train and use
// networks on one device. Headers are named without their folders.
//
//   layers and kernels of your own   custom_kernel.h, operands.h, parameter_text.h, specify.h,
//                                    step_signature.h (docs/own-layers.md)
//   plans without a session          passes.h, verifier.h, plan_cache.h; described_catalog.h and
//                                    device_file.h, for devices that are not here; file_planner.h
//   several ranks                    local_ranks.h, mpi_ranks.h, nccl_ranks.h, parallel_session.h
//   single convolutions              plan_convolution.h, divided_kernel.h (docs/convolutions.md)
//   databases of measured times      profiler.h, profile_database.h, profiled_timings.h,
//                                    kept_engine_lists.h (docs/profile-database.md),
//                                    measure_kernels.h is in neap.h
#pragma once

#include "neap/core/neap.h"
#include "neap/core/program/passes.h"
#include "neap/core/run/file_planner.h"
#include "neap/core/run/parallel_session.h"
#include "neap/core/run/plan_cache.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/core/step/step_signature.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/catalog/custom_kernel.h"
#include "neap/layers/collectives/local_ranks.h"
#include "neap/layers/collectives/mpi_ranks.h"
#include "neap/layers/collectives/nccl_ranks.h"
#include "neap/layers/conv/plan_convolution.h"
#include "neap/layers/cuda/described_catalog.h"
#include "neap/layers/devices/device_file.h"
#include "neap/layers/profile/kept_engine_lists.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/layers/profile/profiler.h"
