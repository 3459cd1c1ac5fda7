// The processes that a launcher has started find each other through c10d's TCPStore and exchange
// data by its Gloo backend, tensors of GPUs by NCCL.
#pragma once

#include <chrono>
#include <memory>

#include "distributed/launcher.h"
#include "distributed/nccl_library.h"
#include "distributed/processes.h"

namespace lmtrain {

// Connects all processes of the launch; every process calls it. `timeout` also limits every
// exchange, until set_timeout(). The first exchange of a tensor on a GPU connects the GPUs by
// `library`. If that fails, tensors of GPUs go through host memory (connect_devices() of
// distributed/device_exchange.h). Throws:
//   Error(kIo)     ranks have not come within `timeout`, or the address cannot be used; the message
//                  names the ranks, or says why
//   ProcessLost    another process ended while the processes connected
//   StopRequested  a signal came first
std::unique_ptr<Processes> connect_processes(const Launch& launch,
                                             std::chrono::milliseconds timeout,
                                             const NcclLibrary& library = {});

}  // namespace lmtrain
