# For NEAP_STATIC_DEPS: executables that need only glibc, libstdc++ and the libraries in their own folder.

# Debian's libabsl-dev has shared and static libraries, but its CMake files name the shared ones; use the static ones.
get_property(neap_imported DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target IN LISTS neap_imported)
  get_target_property(type ${target} TYPE)
  if(NOT target MATCHES "^absl::" OR NOT type STREQUAL "SHARED_LIBRARY")
    continue()
  endif()
  get_target_property(configuration ${target} IMPORTED_CONFIGURATIONS)
  get_target_property(shared ${target} IMPORTED_LOCATION_${configuration})
  string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive ${shared})
  if(NOT EXISTS ${archive})
    message(FATAL_ERROR "NEAP_STATIC_DEPS: there is no ${archive}")
  endif()
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} ${archive}
                                             IMPORTED_SONAME_${configuration} "")
endforeach()

# libsqlite3-dev has both kinds of library.
get_target_property(shared SQLite::SQLite3 IMPORTED_LOCATION)
if(shared MATCHES "\\.so$")
  string(REGEX REPLACE "\\.so$" ".a" archive ${shared})
  set_target_properties(SQLite::SQLite3 PROPERTIES IMPORTED_LOCATION ${archive}
                        INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()

# zlib1g-dev has both kinds of library.
get_target_property(shared ZLIB::ZLIB IMPORTED_LOCATION)
if(shared MATCHES "\\.so$")
  string(REGEX REPLACE "\\.so$" ".a" archive ${shared})
  set_target_properties(ZLIB::ZLIB PROPERTIES IMPORTED_LOCATION ${archive})
endif()

# libjpeg-dev and libpng-dev have both kinds of library.
if(NEAP_HAS_IMAGES)
  foreach(target JPEG::JPEG PNG::PNG)
    get_target_property(shared ${target} IMPORTED_LOCATION)
    if(shared MATCHES "\\.so$")
      string(REGEX REPLACE "\\.so$" ".a" archive ${shared})
      set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${archive})
    endif()
  endforeach()
endif()

# libniftiio-dev and libznz-dev have both kinds of library.
if(NEAP_HAS_NIFTI)
  list(TRANSFORM NEAP_NIFTI_LIBRARY REPLACE "\\.so$" ".a")
  list(TRANSFORM NEAP_ZNZ_LIBRARY REPLACE "\\.so$" ".a")
  set_target_properties(neap_nifti PROPERTIES
                        INTERFACE_LINK_LIBRARIES "${NEAP_NIFTI_LIBRARY};${NEAP_ZNZ_LIBRARY};ZLIB::ZLIB;m")
endif()

# libprotobuf-dev has both kinds of library.
if(NEAP_HAS_ONNX)
  get_target_property(shared protobuf::libprotobuf-lite IMPORTED_LOCATION)
  if(shared MATCHES "\\.so$")
    string(REGEX REPLACE "\\.so$" ".a" archive ${shared})
    set_target_properties(protobuf::libprotobuf-lite PROPERTIES IMPORTED_LOCATION ${archive})
  endif()
endif()

# oneDNN is available only as a shared library; it is copied beside the command, where RUNPATH $ORIGIN finds it.
if(TARGET DNNL::dnnl)
  get_target_property(configuration DNNL::dnnl IMPORTED_CONFIGURATIONS)
  get_target_property(shared DNNL::dnnl IMPORTED_LOCATION_${configuration})
  get_target_property(soname DNNL::dnnl IMPORTED_SONAME_${configuration})
  file(COPY_FILE ${shared} ${PROJECT_BINARY_DIR}/${soname} ONLY_IF_DIFFERENT)
endif()
