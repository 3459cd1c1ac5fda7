# cmake -DFROM=kernel.cu -DTO=kernel.cpp -P translate.cmake: a CUDA source or header as C++ for the emulator (cuda_runtime.h).
file(READ ${FROM} text)
# Shared memory is known to the emulator, which poisons it before each block and counts accesses.
string(REGEX REPLACE "__shared__ ([A-Za-z0-9_]+) ([a-z_]+)([^;]*);" "static emulation::Shared<\\1\\3> \\2;" text "${text}")
if(text MATCHES "__shared__ [A-Za-z]")
  message(FATAL_ERROR "${FROM}: shared memory that translate.cmake does not understand")
endif()
# NAME<ARGUMENTS> <<<CONFIGURATION>>>(
get_filename_component(file ${FROM} NAME)
string(REGEX REPLACE "([a-z_]+)((<[A-Za-z0-9_, ]+>)?)[ \n]*<<<" "emulation::launch(\"${file}:\\1\", \\1\\2, " text "${text}")
string(REGEX REPLACE ">>>[ \n]*\\(" ")(" text "${text}")
if(text MATCHES "<<<|>>>[ \n]*\\(")
  message(FATAL_ERROR "${FROM}: a launch that translate.cmake does not understand")
endif()
file(WRITE ${TO} "#line 1 \"${FROM}\"\n${text}")
