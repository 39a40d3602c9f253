// The emulation describes no GPU to plan for.
#pragma once

inline constexpr char kH200DeviceProperties[] = "";
