// The processes that a launcher has started find each other through c10d's TCPStore and exchange
// data by its Gloo backend, tensors of GPUs by NCCL.
#pragma once

#include <chrono>
#include <memory>

#include "distributed/launcher.h"
#include "distributed/nccl_library.h"
#include "distributed/processes.h"

namespace lmtrain {

// Returns when all processes of the launch are connected; every one must call it. Throws Error(kIo)
// that names the ranks which have not come within `timeout`, or says why the address cannot be
// reached or listened at; StopRequested when a signal comes while it waits for them. `timeout` also
// bounds every exchange until set_timeout(). The first tensor on a GPU connects the GPUs by
// `library`; where that cannot be done, tensors go through host memory (connect_devices() of
// distributed/device_exchange.h).
std::unique_ptr<Processes> connect_processes(const Launch& launch,
                                             std::chrono::milliseconds timeout,
                                             const NcclLibrary& library = {});

}  // namespace lmtrain
