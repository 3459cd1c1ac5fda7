# cmake -DFROM=kernel.cu -DTO=kernel.cpp -P translate.cmake: a CUDA source as C++ for the emulator (cuda_runtime.h).
file(READ ${FROM} text)
# What a launch asks for at run time is as large as it may get.
string(REGEX REPLACE "extern __shared__ float ([a-z_]+)\\[\\]" "static float \\1[48 * 1024 / sizeof(float)]" text "${text}")
# NAME<ARGUMENTS> <<<CONFIGURATION>>>(
string(REGEX REPLACE "([a-z_]+(<[A-Za-z0-9_, ]+>)?)[ \n]*<<<" "emulation::launch(\\1, " text "${text}")
string(REGEX REPLACE ">>>[ \n]*\\(" ")(" text "${text}")
if(text MATCHES "<<<|>>>")
  message(FATAL_ERROR "${FROM}: a launch that translate.cmake does not understand")
endif()
file(WRITE ${TO} "#line 1 \"${FROM}\"\n${text}")
