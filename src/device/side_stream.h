// Lets a thread exchange tensors of a GPU beside the computation, on a stream of its own.
//
// The thread that computes queues its work on the current stream of its device, and calls mark()
// where an exchange may begin. Another thread then calls after(mark, work): the GPU begins `work`
// when it has done all that was queued before the mark, and after() returns when `work` is done. So
// an exchange overwrites no memory that earlier work still reads. The thread that computes needs no
// mark to wait for an exchange: it waits until after() has returned.
//
// On a CPU work is done when it is queued: a mark is empty, and after() only calls `work`.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace lmtrain {

class SideStream {
 public:
  // A mark can be passed to another thread.
  using Mark = std::shared_ptr<void>;

  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
  virtual ~SideStream() = default;

  // Returns a mark behind all work that the current stream has queued.
  virtual Mark mark() = 0;
  // Calls `work`, whose current stream is this one, as the head of the file says. Throws the
  // exceptions of `work`. One thread at a time may call it.
  virtual void after(const Mark& mark, const std::function<void()>& work) = 0;

 protected:
  SideStream() = default;
};

// Returns a new stream of `device`.
std::shared_ptr<SideStream> side_stream(const at::Device& device);

}  // namespace lmtrain
