# The rooms of src, lowest first, and what each may include. CMake makes a library of each room from this list, and the test `layers`
# holds the includes to it.
#   lmtrain_room(NAME [MAY_INCLUDE room...] [LIBRARIES library...])
# A room includes only rooms above it in this list; no room includes cli. The rooms from device on have libtorch.
lmtrain_room(base)
lmtrain_room(config MAY_INCLUDE base LIBRARIES nlohmann_json)
lmtrain_room(formats MAY_INCLUDE base LIBRARIES nlohmann_json)
lmtrain_room(text MAY_INCLUDE base config formats LIBRARIES nlohmann_json arrow lzma)
lmtrain_room(tokenizer MAY_INCLUDE base config formats LIBRARIES nlohmann_json sentencepiece pcre2 utf8proc)
lmtrain_room(prepare MAY_INCLUDE base config formats text tokenizer LIBRARIES nlohmann_json)
lmtrain_room(schedule MAY_INCLUDE base config)
lmtrain_room(batching MAY_INCLUDE base config formats schedule)
lmtrain_room(report MAY_INCLUDE base config formats LIBRARIES nlohmann_json)
lmtrain_room(kernels/cpu)
lmtrain_room(kernels/cuda MAY_INCLUDE base kernels/cpu)
lmtrain_room(device MAY_INCLUDE base config kernels/cpu kernels/cuda LIBRARIES libtorch)
lmtrain_room(ops MAY_INCLUDE base kernels/cpu device LIBRARIES libtorch)
lmtrain_room(model MAY_INCLUDE base config formats device ops LIBRARIES libtorch)
lmtrain_room(optim MAY_INCLUDE base config formats prepare schedule batching device ops model LIBRARIES libtorch nlohmann_json)
lmtrain_room(distributed MAY_INCLUDE base config batching device model optim LIBRARIES libtorch nlohmann_json)
lmtrain_room(checkpoint
  MAY_INCLUDE base config formats tokenizer schedule batching report device ops model optim distributed LIBRARIES libtorch nlohmann_json)
lmtrain_room(eval
  MAY_INCLUDE base config formats text tokenizer prepare schedule batching device ops model distributed LIBRARIES libtorch nlohmann_json)
lmtrain_room(runlog
  MAY_INCLUDE base config formats text tokenizer prepare schedule batching device ops model optim distributed checkpoint eval
  LIBRARIES libtorch nlohmann_json)
lmtrain_room(training
  MAY_INCLUDE base config formats tokenizer prepare schedule batching device ops model optim distributed checkpoint eval runlog
  LIBRARIES libtorch nlohmann_json)
lmtrain_room(cli
  MAY_INCLUDE base config formats tokenizer prepare device model checkpoint eval training report
  LIBRARIES libtorch nlohmann_json CLI11)
