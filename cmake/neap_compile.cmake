# Compile options of every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_BUILD_RPATH "$ORIGIN")  # executables find libraries in their own folder (NEAP_STATIC_DEPS, scripts/bundle.sh)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

find_program(CCACHE ccache)
if(CCACHE AND PROJECT_IS_TOP_LEVEL)
  # With paths below the source tree taken as relative, all clones on a machine share what one of them has compiled.
  # ccache keeps what is compiled with a precompiled header (neap_test_compile) only with this sloppiness.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_CURRENT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

if(NEAP_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${NEAP_SANITIZE}>
                      # These checks of UndefinedBehaviorSanitizer take a fifth of the compilation, and AddressSanitizer finds the same faults.
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,object-size,vptr>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>)
  add_link_options(-fsanitize=${NEAP_SANITIZE})
endif()

# In another project's tree without a build type, neap's own files would be compiled without optimisation, and its CPU kernels would
# take ten times as long.
set(neap_optimised "")
get_property(neap_has_configs GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT neap_has_configs AND NOT CMAKE_CXX_FLAGS MATCHES "(^| )-O")
  message(STATUS "neap: there is no build type, so its own files are compiled with -O3; set CMAKE_BUILD_TYPE for another choice")
  set(neap_optimised $<$<COMPILE_LANGUAGE:CXX>:-O3>)
endif()

function(neap_compile target)
  target_compile_options(${target} PRIVATE ${neap_optimised}
    $<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
    $<$<COMPILE_LANGUAGE:CXX>:-Wconversion> $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>
    # GCC does not warn about these: sign conversions in Clang's -Wconversion, and GCC's own pragmas.
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-sign-conversion> $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-unknown-pragmas>
    # With -O3 GCC 12 reports these in the standard library's inlined code (for example its bug 105651).
    $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release>>:-Wno-restrict>
    $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release>>:-Wno-maybe-uninitialized>
    $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release>>:-Wno-uninitialized>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${NEAP_WERROR}>>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
endfunction()

# Lets the target's C++ sources include cmake/precompiled.h, which is compiled once, where the preset asks for that. Sources with
# options of their own are compiled without. REUSED is a target that has compiled the header with the same options.
function(neap_precompile target)
  if(NOT NEAP_PRECOMPILE)
    return()
  endif()
  cmake_parse_arguments(arg "" "REUSED;HEADER" "" ${ARGN})
  # ccache asks for these where there is a precompiled header.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess> "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
  if(arg_REUSED)
    target_precompile_headers(${target} REUSE_FROM ${arg_REUSED})
  else()
    # A path in angle brackets is the same in all clones, which therefore share what ccache keeps.
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake)
    target_precompile_headers(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:<${arg_HEADER}$<ANGLE-R>>)
  endif()
endfunction()

# Compiles up to NEAP_UNITY of the target's C++ sources in a folder as one: their headers, which take most of the time, are then read
# once. Names in unnamed namespaces must be unique in a folder. Kernels of the CPU are compiled alone, so that what the compiler makes of
# their sums does not depend on their neighbours. CUDA's, which have options of their own, are left to neap_joined_sources.
function(neap_unity target)
  if(NEAP_UNITY LESS_EQUAL 1)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  list(SORT sources)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    if(path MATCHES "^layers/(cpu|cuda)/")
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      continue()
    endif()
    # Tests, GPU tests and what they share are apart, because the emulated GPU has only some of them.
    string(REGEX MATCH "(_gpu)?(_test)?[.]cc$" kind "${path}")
    cmake_path(GET path PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}${kind}" group)
    string(REGEX REPLACE "_cc$" "" group "${group}")
    if(NOT DEFINED count_${group})
      set(count_${group} 0)
    endif()
    math(EXPR part "${count_${group}} / ${NEAP_UNITY}")
    math(EXPR count_${group} "${count_${group}} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${part})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # GCC takes a source that is included for a header, whose classes had better not use an unnamed namespace.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()

# Replaces the C++ sources of the list by ones that include up to NEAP_UNITY of a folder each, except those that match EXCLUDE, and the
# CUDA sources by ones that include up to half as many, because each has more to compile. This is neap_unity for sources with options of
# their own, which the new ones must be given.
function(neap_joined_sources list)
  if(NEAP_UNITY LESS_EQUAL 1)
    return()
  endif()
  cmake_parse_arguments(arg "" "EXCLUDE" "" ${ARGN})
  set(max.cc ${NEAP_UNITY})
  math(EXPR max.cu "(${NEAP_UNITY} + 1) / 2")
  set(joined ${${list}})
  list(FILTER joined INCLUDE REGEX "[.](cc|cu)$")
  list(FILTER joined EXCLUDE REGEX "${arg_EXCLUDE}")
  set(kept ${${list}})
  list(REMOVE_ITEM kept ${joined})
  list(SORT joined)
  foreach(source ${joined})
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET source EXTENSION LAST_ONLY suffix)
    set(group ${folder}${suffix})
    if(NOT DEFINED count_${group})
      set(count_${group} 0)
    endif()
    math(EXPR part "${count_${group}} / ${max${suffix}}")
    math(EXPR count_${group} "${count_${group}} + 1")
    set(path ${CMAKE_CURRENT_BINARY_DIR}/joined/${folder}/${part}${suffix})
    string(APPEND text_${path} "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${source}\"\n")
    list(APPEND paths ${path})
  endforeach()
  list(REMOVE_DUPLICATES paths)
  foreach(path ${paths})
    file(CONFIGURE OUTPUT ${path} CONTENT "${text_${path}}" @ONLY)
  endforeach()
  set(${list} ${kept} ${paths} PARENT_SCOPE)
endfunction()

# Compile options of tests, which must be compiled quickly: light optimisation in every preset, and the precompiled header of
# neap_testing.
function(neap_test_compile target)
  neap_compile(${target})
  target_compile_options(${target} PRIVATE -O1)
  if(target STREQUAL neap_testing)
    # The tests are executables, whose option this is; the header must be compiled with the same one.
    set_target_properties(neap_testing PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(neap_testing PRIVATE -fPIE)
    neap_precompile(neap_testing HEADER tests/precompiled.h)
  else()
    neap_precompile(${target} REUSED neap_testing)
  endif()
endfunction()
