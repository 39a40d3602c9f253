# Makes OUTPUT, a header with the page of `neap plan --report`, from the files in FOLDER (apps/plan/report):
#   cmake -DFOLDER=apps/plan/report -DOUTPUT=report_page.h -P report_page.cmake
# It is a separate script so that the page is regenerated when one of the files changes.
set(script "")
foreach(part base view memory timeline table tensors compare curve main)
  file(READ ${FOLDER}/${part}.js text)
  string(APPEND script "${text}")
endforeach()
file(READ ${FOLDER}/style.css style)
file(READ ${FOLDER}/page.html page)
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
string(FIND "${page}" "@DATA@" at)
string(SUBSTRING "${page}" 0 ${at} before)
math(EXPR at "${at} + 6")
string(SUBSTRING "${page}" ${at} -1 after)
file(WRITE ${OUTPUT} "#pragma once

inline constexpr char kPageBeforeData[] = R\"page(${before})page\";
inline constexpr char kPageAfterData[] = R\"page(${after})page\";
")
