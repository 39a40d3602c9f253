#pragma once

// What most tests include, compiled once (cmake/neap_compile.cmake). A test still includes what it
// uses.
#include <cmake/precompiled.h>
#include <doctest/doctest.h>
