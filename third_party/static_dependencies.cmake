# For NEAP_STATIC_DEPS: executables that need nothing of this machine but glibc, libstdc++ and what lies beside them.

# Debian's libabsl-dev has both kinds of library, but its CMake files name the shared ones: name the others.
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

# libsqlite3-dev has both kinds of library, too.
get_target_property(shared SQLite::SQLite3 IMPORTED_LOCATION)
if(shared MATCHES "\\.so$")
  string(REGEX REPLACE "\\.so$" ".a" archive ${shared})
  set_target_properties(SQLite::SQLite3 PROPERTIES IMPORTED_LOCATION ${archive}
                        INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()

# oneDNN comes only as a shared library: beside the command, where RUNPATH $ORIGIN finds it.
if(TARGET DNNL::dnnl)
  get_target_property(configuration DNNL::dnnl IMPORTED_CONFIGURATIONS)
  get_target_property(shared DNNL::dnnl IMPORTED_LOCATION_${configuration})
  get_target_property(soname DNNL::dnnl IMPORTED_SONAME_${configuration})
  file(COPY_FILE ${shared} ${CMAKE_BINARY_DIR}/${soname} ONLY_IF_DIFFERENT)
endif()
