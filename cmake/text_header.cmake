# Makes OUTPUT, a header with the text of the file INPUT as the constant NAME:
#   cmake -DINPUT=bench/shapes.csv -DNAME=kShapes -DOUTPUT=shapes.h -P text_header.cmake
file(READ ${INPUT} text)
file(WRITE ${OUTPUT} "#pragma once

inline constexpr char ${NAME}[] = R\"text(${text})text\";
")
