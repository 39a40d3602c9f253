// The GPUs of the papers, as the papers describe them, to plan for what they had. neap does not run
// on them: its kernels need newer ones.
//
// The roofline is given rates that convolutions reached, not those of the data sheet, where a paper
// states them: otherwise computation is too fast, and every transfer looks expensive.
//
//   const PlanTarget k40c = PaperTarget(TeslaK40c());
#pragma once

#include "apps/cli/device_flag.h"
#include "neap/core/device/device.h"

namespace neap::apps {

// 12 GiB; 1.52 TFLOP/s, the fastest of cuDNN's five layers (cuDNN, Table 3; the peak is 4.29);
// 288 GB/s of memory (data sheet); copies of 8 GB/s (SuperNeurons, 3.3.2); a host of 256 GiB
// (moDNN, section 7).
DeviceDescription TeslaK40c();

// The peaks and sizes of u-cuDNN's Table VI: one of the K80's two chips, the K20Xm and the GTX 750
// Ti. Their memory bandwidths are those of the data sheets.
DeviceDescription TeslaGk210();
DeviceDescription TeslaK20Xm();
DeviceDescription Gtx750Ti();

// Their engines are not known: each step has one placeholder without workspace.
PlanTarget PaperTarget(DeviceDescription description);

}  // namespace neap::apps
