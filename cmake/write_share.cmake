# Writes completions below SHARE, by the built PROGRAM (cmake/share.cmake).
set(ENV{ASAN_OPTIONS} detect_leaks=0)  # of no account here, and not possible under every debugger
set(ENV{OMP_NUM_THREADS} 1)

function(lmtrain_write_completion shell file)
  cmake_path(GET file PARENT_PATH folder)
  file(MAKE_DIRECTORY ${SHARE}/${folder})
  execute_process(COMMAND ${PROGRAM} completion ${shell} OUTPUT_FILE ${SHARE}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
lmtrain_write_completion(bash bash-completion/completions/lmtrain)
lmtrain_write_completion(zsh zsh/site-functions/_lmtrain)
lmtrain_write_completion(fish fish/vendor_completions.d/lmtrain.fish)
