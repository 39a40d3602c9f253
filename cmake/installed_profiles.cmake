# Makes OUTPUT, a header with the texts of all files FOLDER/*.txt (layers/profile/installed_profile.h) as the constant
# kInstalledProfileTexts:
#   cmake -DFOLDER=layers/profile/installed -DOUTPUT=installed_profile_texts.h -P installed_profiles.cmake
file(GLOB files ${FOLDER}/*.txt)
set(constants "")
set(names "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND constants "inline constexpr char k_${name}[] = R\"text(${text})text\";\n")
  string(APPEND names "    {k_${name}, sizeof k_${name} - 1},\n")
endforeach()
file(WRITE ${OUTPUT} "#pragma once

#include <string_view>

${constants}
inline constexpr std::string_view kInstalledProfileTexts[] = {
${names}};
")
