# Finds neap's dependencies. None is vendored: Debian packages come first, then, with NEAP_FETCH=ON, the projects' releases.
option(NEAP_FETCH "Download the dependencies that are not found" OFF)
option(NEAP_STATIC_DEPS "Make executables that run on another machine: static Abseil, oneDNN beside them" OFF)

# Dependencies that were neither found nor may be downloaded, as "absl (libabsl-dev)"; all are reported at once at the end.
set(neap_absent "")

# neap_require(PACKAGE VERSION TARGET DEBIAN_PACKAGE URL [OPTION=VALUE]...): VERSION "" accepts any version.
macro(neap_require package version target debian url)
  find_package(${package} ${version} CONFIG QUIET)
  if(NOT ${package}_FOUND AND NEAP_FETCH)
    message(STATUS "${package} ${version} not found: downloading ${url}")
    foreach(setting ${ARGN})
      string(REGEX MATCH "^([^=]+)=(.*)$" setting ${setting})
      set(${CMAKE_MATCH_1} ${CMAKE_MATCH_2} CACHE STRING "" FORCE)
    endforeach()
    include(FetchContent)
    FetchContent_Declare(${package} URL ${url} DOWNLOAD_EXTRACT_TIMESTAMP ON)
    FetchContent_MakeAvailable(${package})
  endif()
  if(NOT ${package}_FOUND AND NOT NEAP_FETCH)
    string(STRIP "${package} ${version}" neap_wanted)
    list(APPEND neap_absent "${neap_wanted} (${debian})")
  elseif(NOT TARGET ${target})
    message(FATAL_ERROR "${package} does not define the target ${target}")
  endif()
endmacro()

find_package(Threads REQUIRED)
neap_require(absl "" absl::statusor libabsl-dev
             https://github.com/abseil/abseil-cpp/archive/refs/tags/20230802.2.tar.gz
             ABSL_PROPAGATE_CXX_STD=ON ABSL_ENABLE_INSTALL=ON)
neap_require(nlohmann_json 3.9 nlohmann_json::nlohmann_json nlohmann-json3-dev
             https://github.com/nlohmann/json/releases/download/v3.11.3/json.tar.xz)

# Without doctest there are no tests; everything else builds.
set(NEAP_HAS_TESTS OFF)
if(PROJECT_IS_TOP_LEVEL AND BUILD_TESTING)
  find_package(doctest CONFIG QUIET)
  if(doctest_FOUND OR NEAP_FETCH)
    neap_require(doctest "" doctest::doctest doctest-dev
                 https://github.com/doctest/doctest/archive/refs/tags/v2.4.11.tar.gz DOCTEST_WITH_TESTS=OFF)
    set(NEAP_HAS_TESTS ON)
  else()
    message(STATUS "Tests: off, doctest not found (Debian package doctest-dev, or scripts/setup.sh --tests)")
  endif()
endif()

# A downloaded Boost has one target per library; its Boost::headers, if it exists, is empty.
find_package(Boost 1.71 CONFIG QUIET)
if(NOT TARGET Boost::headers)
  set(BOOST_INCLUDE_LIBRARIES crc intrusive CACHE STRING "What is used of a downloaded Boost")
  neap_require(Boost 1.71 Boost::intrusive libboost-dev
               https://github.com/boostorg/boost/releases/download/boost-1.84.0/boost-1.84.0.tar.xz)
  if(TARGET Boost::intrusive)
    if(NOT TARGET Boost::headers)
      add_library(boost_headers INTERFACE)
      add_library(Boost::headers ALIAS boost_headers)
    endif()
    target_link_libraries(boost_headers INTERFACE Boost::crc Boost::intrusive)
  endif()
endif()

# oneDNN 3 has another interface. A downloaded oneDNN's target is `dnnl`.
find_package(dnnl 2.6 CONFIG QUIET)
add_library(neap_dnnl INTERFACE)
if(TARGET DNNL::dnnl)
  target_link_libraries(neap_dnnl INTERFACE DNNL::dnnl)
else()
  neap_require(dnnl 2.6 dnnl "libdnnl-dev (with ocl-icd-opencl-dev)"
               https://github.com/oneapi-src/oneDNN/archive/refs/tags/v2.7.5.tar.gz
               DNNL_BUILD_TESTS=OFF DNNL_BUILD_EXAMPLES=OFF)
  if(TARGET dnnl)
    target_link_libraries(neap_dnnl INTERFACE dnnl)
    target_include_directories(neap_dnnl INTERFACE ${dnnl_SOURCE_DIR}/include ${dnnl_BINARY_DIR}/include)
  endif()
endif()

# SQLite's release has no CMake files; if it is downloaded, its one source file is compiled here.
find_package(SQLite3 3.37 QUIET)
if(NOT SQLite3_FOUND AND NOT NEAP_FETCH)
  list(APPEND neap_absent "SQLite 3.37 (libsqlite3-dev)")
elseif(NOT SQLite3_FOUND)
  enable_language(C)
  include(FetchContent)
  FetchContent_Declare(sqlite3 URL https://www.sqlite.org/2024/sqlite-amalgamation-3450100.zip
                       DOWNLOAD_EXTRACT_TIMESTAMP ON)
  FetchContent_MakeAvailable(sqlite3)
  add_library(neap_sqlite3 STATIC ${sqlite3_SOURCE_DIR}/sqlite3.c)
  target_include_directories(neap_sqlite3 SYSTEM PUBLIC ${sqlite3_SOURCE_DIR})
  target_link_libraries(neap_sqlite3 PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
  add_library(SQLite::SQLite3 ALIAS neap_sqlite3)
endif()

find_package(ZLIB 1.2.12 QUIET)
if(NOT ZLIB_FOUND AND NOT NEAP_FETCH)
  list(APPEND neap_absent "zlib 1.2.12 (zlib1g-dev)")
elseif(NOT ZLIB_FOUND)
  enable_language(C)
  include(FetchContent)
  FetchContent_Declare(zlib URL https://github.com/madler/zlib/releases/download/v1.3.1/zlib-1.3.1.tar.gz
                       DOWNLOAD_EXTRACT_TIMESTAMP ON)
  FetchContent_MakeAvailable(zlib)
  target_include_directories(zlibstatic INTERFACE ${zlib_SOURCE_DIR} ${zlib_BINARY_DIR})
  add_library(ZLIB::ZLIB ALIAS zlibstatic)
endif()

# Without MPI, ranks of data parallelism cannot be processes on CPUs. Only its C functions are used.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI 3.0 COMPONENTS CXX QUIET)
if(NOT MPI_CXX_FOUND)
  message(STATUS "MPI: off, not found (Debian packages libopenmpi-dev and openmpi-bin)")
endif()

# Without libjpeg-turbo (another libjpeg does not decode parts of images) and libpng, imagefolder: is an error.
find_package(JPEG QUIET)
find_package(PNG 1.6 QUIET)
set(NEAP_HAS_IMAGES OFF)
if(JPEG_FOUND AND PNG_FOUND)
  include(CheckCXXSymbolExists)
  set(CMAKE_REQUIRED_INCLUDES ${JPEG_INCLUDE_DIRS})
  check_cxx_symbol_exists(LIBJPEG_TURBO_VERSION "cstdio;jpeglib.h" NEAP_JPEG_IS_TURBO)
  unset(CMAKE_REQUIRED_INCLUDES)
  if(NEAP_JPEG_IS_TURBO)
    set(NEAP_HAS_IMAGES ON)
  endif()
endif()
if(NOT NEAP_HAS_IMAGES)
  message(STATUS "Folders of images: off, libjpeg-turbo or libpng not found (Debian packages libjpeg-dev and libpng-dev)")
endif()

# Without NIfTI's library, volumes: reads .npy files only. Its CMake files ask for all of its parts, which are packages of their own.
set(NEAP_HAS_NIFTI OFF)
find_path(NEAP_NIFTI_INCLUDE nifti1.h PATH_SUFFIXES nifti)  # which nifti1_io.h includes
find_library(NEAP_NIFTI_LIBRARY niftiio)
find_library(NEAP_ZNZ_LIBRARY znz)
if(NEAP_NIFTI_INCLUDE AND NEAP_NIFTI_LIBRARY AND NEAP_ZNZ_LIBRARY AND TARGET ZLIB::ZLIB)
  set(NEAP_HAS_NIFTI ON)
  add_library(neap_nifti INTERFACE)
  target_include_directories(neap_nifti SYSTEM INTERFACE ${NEAP_NIFTI_INCLUDE})
  target_link_libraries(neap_nifti INTERFACE ${NEAP_NIFTI_LIBRARY} ${NEAP_ZNZ_LIBRARY} ZLIB::ZLIB m)
else()
  message(STATUS "NIfTI: off, its library not found (Debian package libnifti2-dev)")
endif()

# Without Protocol Buffers, networks cannot be read from and written to ONNX files.
set(NEAP_HAS_ONNX OFF)
find_package(Protobuf 3.12 QUIET)
if(TARGET protobuf::libprotobuf-lite AND TARGET protobuf::protoc)
  set(NEAP_HAS_ONNX ON)
else()
  message(STATUS "ONNX: off, Protocol Buffers not found (Debian packages libprotobuf-dev and protobuf-compiler)")
endif()

if(neap_absent)
  list(JOIN neap_absent ", " neap_absent)
  message(FATAL_ERROR "Not found, with the Debian packages that have it: ${neap_absent}. Install them, name the folder "
                      "where they are installed (-DCMAKE_PREFIX_PATH=FOLDER), or have them downloaded (-DNEAP_FETCH=ON)")
endif()

if(NEAP_STATIC_DEPS)
  include(static_dependencies)
endif()
include(cuda)
