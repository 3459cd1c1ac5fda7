// The processes that a launcher has started, connected: c10d's TCPStore and its Gloo backend.
#pragma once

#include <chrono>
#include <memory>

#include "processes/launch.h"
#include "processes/processes.h"

namespace lmtrain {

// Returns when all processes of the launch have come. Error(kIo) that names those which have not
// within `timeout`, or says why nobody can meet at the address; `timeout` also bounds every
// exchange until set_timeout(). Tensors on a GPU are exchanged through host memory.
std::unique_ptr<Processes> connect_processes(const Launch& launch,
                                             std::chrono::milliseconds timeout);

}  // namespace lmtrain
