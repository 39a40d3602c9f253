# Sets NEAP_HAS_CUDA and, if so, the target neap_cuda_libraries.
#
# The toolkit may be an installed one or the PyPI packages (nvidia/cu13/{bin,include,lib} and nvidia/cudnn/{include,lib}):
# name its compiler with CUDACXX or put nvcc on the PATH. The PyPI packages have libraries without the plain .so link and
# no lib64, so everything is searched by file, next to the compiler first.
set(NEAP_HAS_CUDA OFF)
option(NEAP_FETCH "Download the cudnn-frontend headers if they are not found" OFF)
set(NEAP_CUDNN_FRONTEND_DIR "" CACHE PATH "Folder with include/cudnn_frontend.h")
if(NOT NEAP_CUDA)
  message(STATUS "CUDA: off (NEAP_CUDA=OFF)")
  return()
endif()

# CMake before 3.28 does not look in /usr/local/cuda, nor in the folder of a PyPI installation (scripts/setup.sh).
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(NEAP_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda ${PROJECT_SOURCE_DIR}/build/deps/cuda
               PATH_SUFFIXES bin)
  if(NEAP_NVCC)
    set(CMAKE_CUDA_COMPILER ${NEAP_NVCC})
  endif()
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90 CACHE STRING "CUDA architectures")
endif()
set(neap_compiler "${CMAKE_CUDA_COMPILER}")
if(NOT neap_compiler AND DEFINED ENV{CUDACXX})
  set(neap_compiler "$ENV{CUDACXX}")
endif()
set(neap_missing "")
set(neap_root "")
if(neap_compiler)
  get_filename_component(neap_compiler "${neap_compiler}" REALPATH)
  get_filename_component(neap_root "${neap_compiler}/../.." ABSOLUTE)
  # The compiler check links a program: it must find libcudart_static.a in lib as well as in lib64.
  string(APPEND CMAKE_CUDA_FLAGS_INIT " -L${neap_root}/lib")
  include(CheckLanguage)
  check_language(CUDA)
endif()
if(NOT CMAKE_CUDA_COMPILER)
  list(APPEND neap_missing "a CUDA compiler (CUDACXX, or nvcc on the PATH)")
endif()

set(neap_hints ${neap_root} ${neap_root}/../cudnn ENV CUDNN_ROOT ENV CUDA_HOME ENV CUDA_PATH)
set(neap_paths /usr/local/cuda)
set(neap_library_suffixes lib lib64 targets/x86_64-linux/lib lib/x86_64-linux-gnu)
find_library(NEAP_CUDART libcudart_static.a HINTS ${neap_hints} PATHS ${neap_paths} PATH_SUFFIXES ${neap_library_suffixes})
if(NOT NEAP_CUDART)
  list(APPEND neap_missing libcudart_static.a)
endif()
# Loaded at run time: the programs of the build tree, and the Python module, also look in these folders.
find_library(NEAP_CUBLASLT NAMES libcublasLt.so.13 libcublasLt.so.12 libcublasLt.so NAMES_PER_DIR HINTS ${neap_hints}
             PATHS ${neap_paths} PATH_SUFFIXES ${neap_library_suffixes})
find_library(NEAP_CUDNN NAMES libcudnn.so.9 libcudnn.so NAMES_PER_DIR HINTS ${neap_hints} PATHS ${neap_paths}
             PATH_SUFFIXES ${neap_library_suffixes})
mark_as_advanced(NEAP_CUDART NEAP_CUBLASLT NEAP_CUDNN)
find_path(NEAP_CUDA_INCLUDE cuda_runtime_api.h HINTS ${neap_hints} PATHS ${neap_paths}
          PATH_SUFFIXES include targets/x86_64-linux/include)
find_path(NEAP_CUBLAS_INCLUDE cublasLt.h HINTS ${neap_hints} PATHS ${neap_paths}
          PATH_SUFFIXES include targets/x86_64-linux/include)
find_path(NEAP_CUDNN_INCLUDE cudnn.h HINTS ${neap_hints} PATHS ${neap_paths}
          PATH_SUFFIXES include targets/x86_64-linux/include x86_64-linux-gnu)
find_path(NEAP_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h
          HINTS ${NEAP_CUDNN_FRONTEND_DIR} ${PROJECT_BINARY_DIR}/../cudnn-frontend
                ${PROJECT_SOURCE_DIR}/build/deps/cudnn-frontend
          PATH_SUFFIXES include)
# Without NCCL's header, ranks of data parallelism cannot be on GPUs. The library is loaded at run time.
find_path(NEAP_NCCL_INCLUDE nccl.h HINTS ${neap_hints} ${neap_root}/../nccl PATHS ${neap_paths}
          PATH_SUFFIXES include targets/x86_64-linux/include)
mark_as_advanced(NEAP_CUDA_INCLUDE NEAP_CUBLAS_INCLUDE NEAP_CUDNN_INCLUDE NEAP_CUDNN_FRONTEND_INCLUDE NEAP_NCCL_INCLUDE)
foreach(header CUDA:cuda_runtime_api.h CUBLAS:cublasLt.h CUDNN:cudnn.h)
  string(REPLACE ":" ";" header ${header})
  list(GET header 0 module)
  list(GET header 1 file)
  if(NOT NEAP_${module}_INCLUDE)
    list(APPEND neap_missing ${file})
  endif()
endforeach()
if(NEAP_CUDNN_INCLUDE)
  # cuDNN 9.8 and newer can list the engines of an absent GPU; cuDNN 10 may have another interface.
  set(neap_cudnn_version "")
  foreach(part MAJOR MINOR PATCHLEVEL)
    file(STRINGS ${NEAP_CUDNN_INCLUDE}/cudnn_version.h neap_line REGEX "#define CUDNN_${part} ")
    string(REGEX MATCH "[0-9]+$" neap_line "${neap_line}")
    list(APPEND neap_cudnn_version "${neap_line}")
  endforeach()
  list(JOIN neap_cudnn_version "." neap_cudnn_version)
  if(neap_cudnn_version VERSION_LESS 9.8 OR NOT neap_cudnn_version VERSION_LESS 10)
    list(APPEND neap_missing "cuDNN 9, from 9.8 on (found ${neap_cudnn_version} in ${NEAP_CUDNN_INCLUDE})")
  endif()
endif()
if(NOT NEAP_CUDNN_FRONTEND_INCLUDE AND NEAP_FETCH AND NOT neap_missing)
  include(FetchContent)
  FetchContent_Declare(cudnn_frontend GIT_REPOSITORY https://github.com/NVIDIA/cudnn-frontend.git
                       GIT_TAG v1.32.0 GIT_SHALLOW ON SOURCE_SUBDIR none)
  FetchContent_MakeAvailable(cudnn_frontend)
  set(NEAP_CUDNN_FRONTEND_INCLUDE ${cudnn_frontend_SOURCE_DIR}/include)
endif()
if(NOT NEAP_CUDNN_FRONTEND_INCLUDE)
  list(APPEND neap_missing "the cudnn-frontend headers (NEAP_CUDNN_FRONTEND_DIR, or NEAP_FETCH=ON)")
endif()
if(neap_missing)
  list(JOIN neap_missing ", " neap_missing)
  message(STATUS "CUDA: off, not found: ${neap_missing}")
  return()
endif()

enable_language(CUDA)
# This level is for the host's code, which only launches kernels; kernels are optimised in any case.
string(REPLACE "-O3" "-O1" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
set(NEAP_HAS_CUDA ON)
# CMake 3.25 does not know that nvcc supports C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
if(NOT NEAP_NCCL_INCLUDE)
  message(STATUS "NCCL: off, nccl.h not found")
endif()
message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}, cuDNN's headers in ${NEAP_CUDNN_INCLUDE}")

# libcuda is not linked: the runtime loads the driver itself, so programs also start without a driver. They load cuBLASLt and
# cuDNN when they open a GPU, so they start without these, too.
set(NEAP_CUDA_RUNPATH "")
foreach(library ${NEAP_CUBLASLT} ${NEAP_CUDNN})
  get_filename_component(folder "${library}" DIRECTORY)
  if(IS_ABSOLUTE "${folder}")
    list(APPEND NEAP_CUDA_RUNPATH ${folder})
  endif()
endforeach()
list(REMOVE_DUPLICATES NEAP_CUDA_RUNPATH)
list(APPEND CMAKE_BUILD_RPATH ${NEAP_CUDA_RUNPATH})
set(NEAP_CUDA_INCLUDE_DIRECTORIES ${NEAP_CUDA_INCLUDE} ${NEAP_CUBLAS_INCLUDE} ${NEAP_CUDNN_INCLUDE}
    ${NEAP_CUDNN_FRONTEND_INCLUDE})
if(NEAP_NCCL_INCLUDE)
  list(APPEND NEAP_CUDA_INCLUDE_DIRECTORIES ${NEAP_NCCL_INCLUDE})
endif()
list(REMOVE_DUPLICATES NEAP_CUDA_INCLUDE_DIRECTORIES)
add_library(neap_cuda_libraries INTERFACE)
target_include_directories(neap_cuda_libraries SYSTEM INTERFACE ${NEAP_CUDA_INCLUDE_DIRECTORIES})
target_link_libraries(neap_cuda_libraries INTERFACE
  ${NEAP_CUDART} ${CMAKE_DL_LIBS} Threads::Threads rt)
