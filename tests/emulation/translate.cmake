# cmake -DFROM=kernel.cu -DTO=kernel.cpp -P translate.cmake: a CUDA source or header as C++ for the emulator (cuda_runtime.h).
file(READ ${FROM} text)
# What a launch asks for at run time is as large as it may get.
string(REGEX REPLACE "extern __shared__ float ([a-z_]+)\\[\\]" "__shared__ float \\1[48 * 1024 / sizeof(float)]" text "${text}")
# Shared memory is known to the emulator, which poisons it before each block.
string(REGEX REPLACE "__shared__ ([A-Za-z0-9_]+ ([a-z_]+)[^;]*);" "static \\1; static const emulation::SharedMemory shared_\\2(\\2, sizeof \\2);"
       text "${text}")
if(text MATCHES "__shared__ [A-Za-z]")
  message(FATAL_ERROR "${FROM}: shared memory that translate.cmake does not understand")
endif()
# NAME<ARGUMENTS> <<<CONFIGURATION>>>(
string(REGEX REPLACE "([a-z_]+(<[A-Za-z0-9_, ]+>)?)[ \n]*<<<" "emulation::launch(\\1, " text "${text}")
string(REGEX REPLACE ">>>[ \n]*\\(" ")(" text "${text}")
if(text MATCHES "<<<|>>>[ \n]*\\(")
  message(FATAL_ERROR "${FROM}: a launch that translate.cmake does not understand")
endif()
file(WRITE ${TO} "#line 1 \"${FROM}\"\n${text}")
