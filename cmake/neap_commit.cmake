# NEAP_COMMIT: the commit at which this build is configured, "07b90e9" or "07b90e9-dirty"; "unknown" outside a clone of neap.
set(NEAP_COMMIT unknown)
execute_process(COMMAND git -C ${CMAKE_CURRENT_SOURCE_DIR} rev-parse --show-prefix
                OUTPUT_VARIABLE prefix RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(failed EQUAL 0 AND prefix STREQUAL "")  # not a folder of another project's clone
  execute_process(COMMAND git -C ${CMAKE_CURRENT_SOURCE_DIR} describe --always --dirty
                  OUTPUT_VARIABLE NEAP_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
