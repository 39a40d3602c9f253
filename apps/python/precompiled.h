#pragma once

// The headers that most sources of the extension module include, compiled once
// (cmake/neap_compile.cmake). A source still includes what it uses.
#include <cmake/precompiled.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>
